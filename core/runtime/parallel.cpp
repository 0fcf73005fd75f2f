#include "gradus/core/runtime/parallel.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/modes.h"

// Null in a program linked with -static, which cannot be unloaded.
#pragma weak dladdr
#pragma weak dlopen

namespace gradus {

namespace {

constexpr int max_threads = 1024;

// Initially OpenMP's setting.
std::atomic<int>& thread_count() {
  static std::atomic<int> count{std::min(omp_get_max_threads(), max_threads)};
  return count;
}

// Whether this thread is running chunks of a parallel loop.
thread_local constinit bool in_loop = false;

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void run_alone(int64_t chunks, void (*chunk)(void*, int64_t), void* context) {
  FlushDenormals flush;
  for (int64_t c = 0; c < chunks; ++c) chunk(context, c);
}

// A thread's share of a loop's chunks, [next, end).
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

// Runs one loop at a time. The caller opens the loop, works as the workers do, closes the loop when
// no chunk is left, and waits for the workers still inside. If no threads can be created it does
// all the work itself.
//
// Thread t of n starts with the t-th of n equal shares of the chunks, and takes chunks of other
// shares only when its own are done. In loops over the same data, a thread therefore mostly reads
// data that it wrote itself and that is still in its caches.
class Pool {
 public:
  void run(int64_t chunks, void (*chunk)(void*, int64_t), void* context) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return run_alone(chunks, chunk, context);
    start_workers(num_threads() - 1);
    chunk_ = chunk;
    context_ = context;
    run_ += chunks;
    modes_ = core::modes();
    sharers_ = num_threads();
    const int64_t each = chunks / sharers_, more = chunks % sharers_;
    for (int64_t t = 0, begin = 0; t < sharers_; ++t) {
      shares_[t].next.store(begin, std::memory_order_relaxed);
      shares_[t].end = begin += each + (t < more ? 1 : 0);
    }
    epoch_.fetch_add(1);  // odd: open
    epoch_.notify_all();
    work(0);
    epoch_.fetch_add(1);  // even: closed
    for (int spins = 0; active_.load() != 0; ++spins) {
      if (spins < 2000)
        cpu_relax();
      else
        std::this_thread::yield();
    }
  }

  ChunkCounts counts() {
    const std::lock_guard lock(mutex_);
    return {run_, moved_.load()};
  }

 private:
  // If the system refuses to create a thread, continues with the existing ones.
  void start_workers(int target) {
    try {
      for (; workers_ < target; ++workers_) {
        std::thread([this, index = workers_] { serve(index); }).detach();
      }
    } catch (const std::exception&) {
    }
  }

  void work(int thread) {
    in_loop = true;
    {
      FlushDenormals flush;
      for (int i = 0; i < sharers_; ++i) {
        Share& share = shares_[(thread + i) % sharers_];
        for (int64_t c; (c = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
          if (i > 0) moved_.fetch_add(1, std::memory_order_relaxed);
          chunk_(context_, c);
        }
      }
    }
    in_loop = false;
  }

  void serve(int index) {
    for (uint32_t seen = 0;;) {
      // Surplus workers sleep until the thread count changes.
      for (int threads; index >= (threads = num_threads()) - 1;) thread_count().wait(threads);
      seen = wait_for_loop(seen);
      // Either the caller, closing the loop, sees this worker inside, or this worker sees that the
      // loop is closed (these operations are sequentially consistent). The number of threads may
      // have fallen since this worker began to wait.
      active_.fetch_add(1);
      if (epoch_.load() == seen && index + 1 < sharers_) {
        core::modes() = modes_;
        work(index + 1);
      }
      active_.fetch_sub(1);
    }
  }

  // Returns the epoch of an open loop other than `seen`. Spins for about the time between the loops
  // of a training step, then sleeps.
  uint32_t wait_for_loop(uint32_t seen) {
    using clock = std::chrono::steady_clock;
    auto sleep_at = clock::now() + std::chrono::milliseconds(1);
    for (int spins = 1;; ++spins) {
      const uint32_t epoch = epoch_.load();
      if (epoch % 2 == 1 && epoch != seen) return epoch;
      cpu_relax();
      if (spins % 64 == 0 && clock::now() > sleep_at) {
        epoch_.wait(epoch);
        sleep_at = clock::now() + std::chrono::milliseconds(1);
      }
    }
  }

  std::mutex mutex_;  // held by the thread running a loop; guards workers_, run_ and the loop
  int64_t run_ = 0;
  std::atomic<int64_t> moved_{0};
  int workers_ = 0;
  void (*chunk_)(void*, int64_t) = nullptr;
  void* context_ = nullptr;
  core::Modes modes_;  // of the thread running the loop
  int sharers_ = 1;    // threads that have a share
  Share shares_[max_threads];
  alignas(64) std::atomic<uint32_t> epoch_{0};  // odd while a loop is open
  alignas(64) std::atomic<int> active_{0};      // workers inside the loop
};

// Keeps the library or plugin that contains this code loaded: the workers run in it.
void stay_loaded() {
  Dl_info here;
  if (dladdr && dlopen && dladdr(reinterpret_cast<void*>(&num_threads), &here) != 0)
    ::dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// Never destroyed: its threads may outlive every static object.
Pool& pool() {
  static Pool& instance = *(stay_loaded(), new Pool);
  return instance;
}

// A forked child inherits no other threads, so nothing there would unlock a locked pool or close an
// open loop. The child therefore starts with a new pool. A child forked inside a loop body must
// exec or exit. The pool is constructed before each fork, because in the child nothing would finish
// a construction that another thread has begun.
[[maybe_unused]] const int before_fork = pthread_atfork([] { pool(); }, nullptr, nullptr);
[[maybe_unused]] const int after_fork = pthread_atfork(nullptr, nullptr, [] {
  if (!in_loop) new (&pool()) Pool;
});

}  // namespace

ChunkCounts internal::chunk_counts() { return pool().counts(); }

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void set_num_threads(int n) {
  check(n >= 1 && n <= max_threads, "set_num_threads: expected 1 to ", max_threads,
        " threads, got ", n);
  thread_count().store(n);
  thread_count().notify_all();
}

bool in_parallel_region() { return in_loop || omp_in_parallel(); }

void detail::run_chunks(int64_t chunks, void (*chunk)(void*, int64_t), void* context) {
  if (chunks == 1 || num_threads() == 1 || in_parallel_region())
    return run_alone(chunks, chunk, context);
  // Keeps the first exception for the caller; chunks not started by then are skipped.
  struct Guarded {
    void (*chunk)(void*, int64_t);
    void* context;
    std::exception_ptr error = {};
    std::atomic<bool> failed = false;
  } guarded{chunk, context};
  pool().run(
      chunks,
      [](void* context, int64_t c) {
        Guarded& g = *static_cast<Guarded*>(context);
        if (g.failed.load(std::memory_order_relaxed)) return;
        try {
          g.chunk(g.context, c);
        } catch (...) {
          if (!g.failed.exchange(true)) g.error = std::current_exception();
        }
      },
      &guarded);
  if (guarded.error) std::rethrow_exception(guarded.error);
}

}  // namespace gradus
