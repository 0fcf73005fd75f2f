#pragma once
// Threads and vector loops: the only place in gradus that starts threads or speaks OpenMP.
//
// The threads are a pool of our own rather than an OpenMP team, for one reason: the caller works
// through the chunks itself and waits for no thread that has not begun. So a loop is never slower
// than on one thread, where a team's barrier waits until the system has run each of its threads: up
// to 30 ms a loop, measured, when other programs use the processors.
//
// parallel_for splits [0, n) into chunks whose size the caller fixes and the number of threads does
// not change, so a chunk always computes the same bits. Sums over chunks are combined in chunk
// order. Bodies work on raw pointers. While a region runs, denormal numbers are flushed to zero on
// each of its threads (one denormal gradient costs as much as a hundred normal ones); the threads'
// floating-point modes are restored after.

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus {

/// The number of threads that gradus uses: set_num_threads' value, or at first OpenMP's own
/// (OMP_NUM_THREADS, else the number of processors).
int num_threads();

/// Sets the number of threads that gradus uses from now on; nobody else's setting is changed.
/// Throws Error unless 1 <= n <= 1024.
void set_num_threads(int n);

/// Flushes denormal numbers to zero on this thread while it lives (x86: FTZ and DAZ; aarch64: FZ).
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : mode_(_mm_getcsr()) {
    if ((mode_ & 0x8040u) != 0x8040u) _mm_setcsr(mode_ | 0x8040u);
  }
  ~FlushDenormals() {
    if ((mode_ & 0x8040u) != 0x8040u) _mm_setcsr(mode_ | (_mm_getcsr() & 0x3fu));
  }
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(mode_));
    asm volatile("msr fpcr, %0" ::"r"(mode_ | (1ull << 24)));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(mode_)); }
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__aarch64__)
  uint64_t mode_;
#else
  unsigned mode_ = 0;
#endif
};

/// True inside a parallel loop of gradus or a parallel region of the caller's own OpenMP.
bool in_parallel_region();

namespace detail {

/// Calls chunk(context, c) for c in [0, chunks) on this thread and num_threads() - 1 others,
/// denormals flushed; on this thread alone while another thread's loop has the others.
void run_chunks(int64_t chunks, void (*chunk)(void*, int64_t), void* context);

}  // namespace detail

/// Calls body(begin, end) for each chunk [begin, end) of [0, n), `grain` long but for the last, on
/// up to num_threads() threads; on this thread alone where there is one chunk or where this thread
/// is already in a parallel region. An exception thrown by a body is thrown again here.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  if (n <= 0) return;
  grain = grain < 1 ? 1 : grain;
  const int64_t chunks = (n - 1) / grain + 1;
  auto chunk = [&](int64_t c) { body(c * grain, c == chunks - 1 ? n : (c + 1) * grain); };
  if (chunks == 1 || num_threads() == 1 || in_parallel_region()) {
    FlushDenormals flush;
    for (int64_t c = 0; c < chunks; ++c) chunk(c);
    return;
  }
  std::exception_ptr error;
  std::atomic<bool> failed{false};
  auto guarded = [&](int64_t c) {
    if (failed.load(std::memory_order_relaxed)) return;
    try {
      chunk(c);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  detail::run_chunks(
      chunks, [](void* context, int64_t c) { (*static_cast<decltype(guarded)*>(context))(c); },
      &guarded);
  if (error) std::rethrow_exception(error);
}

/// The sum of chunk_sum(begin, end) over the chunks of [0, n), added in chunk order.
template <class T, class ChunkSum>
T parallel_sum(int64_t n, int64_t grain, ChunkSum&& chunk_sum) {
  grain = grain < 1 ? 1 : grain;
  const int64_t chunks = n <= 0 ? 0 : (n - 1) / grain + 1;
  if (chunks <= 1) {
    FlushDenormals flush;
    return chunks ? chunk_sum(int64_t{0}, n) : T{};
  }
  std::vector<T> partial(static_cast<size_t>(chunks));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    partial[static_cast<size_t>(begin / grain)] = chunk_sum(begin, end);
  });
  T total{};
  for (const T& p : partial) total += p;
  return total;
}

/// f(i) for i in [0, n) as one vector loop: iterations must not depend on each other. Always
/// inlined, f by value: behind a reference to f the pointers it holds would be gathered anew for
/// each element.
template <class F>
[[gnu::always_inline]] inline void simd_for(int64_t n, F f) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) f(i);
}

/// The sum of f(i) for i in [0, n) as one vector loop. For n of some thousands at most (a flat
/// float32 sum loses digits with n); else blocked_sum.
template <class T, class F>
[[gnu::always_inline]] inline T simd_sum(int64_t n, F f) {
  T s{};
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += f(i);
  return s;
}

/// The sum of f(i) for i in [0, n), n as large as you like: vector loops over blocks, whose sums
/// are added in double.
template <class T, class F>
[[gnu::always_inline]] inline double blocked_sum(int64_t n, F f) {
  constexpr int64_t block = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += block)
    total += static_cast<double>(simd_sum<T>(n - begin < block ? n - begin : block,
                                             [=](int64_t i) { return f(begin + i); }));
  return total;
}

/// The largest of `start` and f(i) for i in [0, n), as one vector loop. NaN is passed over.
template <class T, class F>
[[gnu::always_inline]] inline T simd_max(int64_t n, T start, F f) {
  T m = start;
#pragma omp simd reduction(max : m)
  for (int64_t i = 0; i < n; ++i) {
    const T v = f(i);
    m = v > m ? v : m;
  }
  // OpenMP lets a maximum begin at the least finite number (clang's does), above -infinity.
  if (m == std::numeric_limits<T>::lowest()) {
    m = start;
    for (int64_t i = 0; i < n; ++i) m = f(i) > m ? f(i) : m;
  }
  return m;
}

/// Runs f with OpenMP told that this thread may use one thread, for a BLAS that would otherwise
/// start a team of its own; the thread's setting is restored after.
template <class F>
void with_single_openmp_thread(F&& f) {
  const int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  f();
  if (before != 1) omp_set_num_threads(before);
}

/// "libgomp" or "libomp", and what it reports as its OpenMP version, for build_info().
const char* openmp_runtime();

}  // namespace gradus
