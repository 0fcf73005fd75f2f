#include "gradus/core/runtime/allocator.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/sanitizer.h"

#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#endif

// Functions of AddressSanitizer, declared here because its header is not always installed.
extern "C" void __asan_poison_memory_region(const volatile void*, size_t);
extern "C" void __asan_unpoison_memory_region(const volatile void*, size_t);

namespace gradus {

namespace {

// Under a sanitizer, blocks are not cached, so that the sanitizer detects uses of freed blocks. But
// AddressSanitizer maps each block above 128 KB anew, and page faults took half of the tests' time.
// Such blocks are cached, and the bytes that must not be accessed are poisoned.
constexpr bool caching(int64_t bytes) {
  return !sanitized || (address_sanitized && bytes > int64_t{128} << 10);
}

constexpr int64_t alignment = 64;
constexpr int64_t map_from = int64_t{1} << 18;  // bytes; see map()
constexpr int64_t huge_page = int64_t{1} << 21;
// More than an x86-64 or arm64 process can address; fails without a system call.
constexpr int64_t max_bytes = int64_t{1} << 47;
// Bytes freed in a shard between its reports to the allocator.
constexpr int64_t report_step = int64_t{1} << 26;

// Block sizes: multiples of 64 up to 512, then 8 steps per power of two, so that a block is at most
// an eighth larger than requested; from 32 MB on 64 steps.
constexpr int small_classes = 8 + 8 * (25 - 9), classes = small_classes + 64 * (47 - 25);

int class_of(int64_t bytes) {
  const uint64_t last = bytes > 0 ? static_cast<uint64_t>(bytes) - 1 : 0;
  if (last < 512) return static_cast<int>(last / 64);
  const int power = std::bit_width(last) - 1;
  if (power < 25)  // last >> (power - 3) is in [8, 16)
    return 8 * (power - 9) + static_cast<int>(last >> (power - 3));
  return small_classes + 64 * (power - 26) + static_cast<int>(last >> (power - 6));
}

int64_t class_size(int c) {
  if (c < 8) return 64 * (c + 1);
  if (c < small_classes) return static_cast<int64_t>(c % 8 + 9) << (c / 8 + 5);
  const int large = c - small_classes;
  return static_cast<int64_t>(large % 64 + 65) << (large / 64 + 19);
}

// Large blocks are allocated by mmap. From malloc, most freed memory would stay in pieces that fit
// no other size: for 88 MB of live memory, 204 MB were held instead of 123 MB. Blocks from 2 MB on
// use huge pages, which cause fewer page faults and TLB misses (sweeping memory is 1.4 times as
// fast).
#if defined(__linux__)
bool mapped(int64_t bytes) { return !sanitized && bytes >= map_from; }

std::byte* map(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const size_t align = bytes >= huge_page ? huge_page : 0;
  void* p = mmap(nullptr, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* block = static_cast<std::byte*>(p);
  if (!align) return block;
  const size_t before = -reinterpret_cast<uintptr_t>(p) % align;
  if (before > 0) munmap(block, before);
  block += before;
  munmap(block + size, align - before);
  madvise(block, size / huge_page * huge_page, MADV_HUGEPAGE);
  return block;
}
#endif

std::byte* system_allocate(int64_t bytes) {
#if defined(__linux__)
  if (mapped(bytes)) return map(bytes);
#endif
  void* p = nullptr;
  if (posix_memalign(&p, alignment, static_cast<size_t>(bytes)) != 0) return nullptr;
  return static_cast<std::byte*>(p);
}

void system_free(void* block, int64_t bytes) {
#if defined(__linux__)
  if (mapped(bytes)) {
    munmap(block, static_cast<size_t>(bytes));
    return;
  }
#endif
  std::free(block);
}

// Tells AddressSanitizer that only the first `bytes` bytes of a block of `size` bytes may be
// accessed.
void allow_only([[maybe_unused]] std::byte* block, [[maybe_unused]] int64_t bytes,
                [[maybe_unused]] int64_t size) {
  if constexpr (address_sanitized) {
    __asan_unpoison_memory_region(block, static_cast<size_t>(bytes));
    __asan_poison_memory_region(block + bytes, static_cast<size_t>(size - bytes));
  }
}

// The free blocks of one class, linked through their first bytes.
struct FreeBlock {
  FreeBlock* next;
  int64_t size;  // set when the block is evicted
};

// Each thread frees into and takes from its own shard, so that threads rarely contend for a lock.
// If its shard has no block, it tries the others before the system.
struct alignas(64) Shard {
  std::mutex mutex;
  std::array<FreeBlock*, classes> free{};
  int64_t freed = 0;  // bytes, since the last report

  std::byte* take(int c) {
    std::lock_guard lock(mutex);
    FreeBlock* block = free[static_cast<size_t>(c)];
    if (block) free[static_cast<size_t>(c)] = block->next;
    return reinterpret_cast<std::byte*>(block);
  }
  // Returns the bytes freed here since the last report if they should be reported, else 0.
  int64_t put(int c, std::byte* data) {
    auto* block = reinterpret_cast<FreeBlock*>(data);
    std::lock_guard lock(mutex);
    block->next = free[static_cast<size_t>(c)];
    free[static_cast<size_t>(c)] = block;
    freed += class_size(c);
    return freed < report_step ? 0 : std::exchange(freed, 0);
  }
  // Frees blocks of class `smallest` or above to the system, one per class in turn starting at
  // class `turn`, until they amount to `bytes`. Returns the number of bytes freed.
  int64_t evict(int64_t bytes, int smallest, int& turn) {
    FreeBlock* evicted = nullptr;
    int64_t sum = 0;
    {
      std::lock_guard lock(mutex);
      for (int passed = 0; sum < bytes && passed < classes; turn = (turn + 1) % classes, ++passed) {
        FreeBlock*& list = free[static_cast<size_t>(turn)];
        if (!list || turn < smallest) continue;
        FreeBlock* block = std::exchange(list, list->next);
        block->next = std::exchange(evicted, block);
        block->size = class_size(turn);
        sum += class_size(turn);
        passed = -1;
      }
    }
    while (evicted) {
      FreeBlock* block = std::exchange(evicted, evicted->next);
      system_free(block, block->size);
    }
    return sum;
  }
};

class Allocator {
 public:
  std::byte* allocate(int64_t bytes) {
    check<OutOfMemory>(bytes >= 0 && bytes < max_bytes, "storage: cannot allocate ", bytes,
                       " bytes");
    const int64_t size = block_size(bytes);
    std::byte* block = caching(bytes) ? take(class_of(bytes)) : nullptr;
    if (!block) block = allocate_from_system(bytes, size);
    if (caching(bytes)) allow_only(block, bytes, size);
    const int64_t live = live_.fetch_add(size, std::memory_order_relaxed) + size;
    int64_t mark = mark_.load(std::memory_order_relaxed);
    while (mark < live && !mark_.compare_exchange_weak(mark, live, std::memory_order_relaxed)) {
    }
    return block;
  }

  void free(std::byte* block, int64_t bytes) {
    const int64_t size = block_size(bytes);
    live_.fetch_sub(size, std::memory_order_relaxed);
    if (caching(bytes)) {
      allow_only(block, sizeof(FreeBlock), size);
      if (const int64_t freed = own_shard().put(class_of(bytes), block)) report(freed);
    } else {
      held_.fetch_sub(size, std::memory_order_relaxed);
      system_free(block, size);
    }
  }

  void release() {
    {
      std::lock_guard lock(mutex_);
      shrink(0);
    }
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    MemoryStats s;
    s.live = live_.load(std::memory_order_relaxed);
    s.peak = std::max({peak_, mark_.load(std::memory_order_relaxed), s.live});
    // Other threads may allocate and free between the two loads.
    s.cached = std::max<int64_t>(0, held_.load(std::memory_order_relaxed) - s.live);
    s.system_allocations = system_allocations_.load(std::memory_order_relaxed);
    return s;
  }

  void reset_peak() {
    std::lock_guard lock(mutex_);
    collect_mark();
    peak_ = live_.load();
  }

  // Called before fork, so that no other thread is modifying a list that the child inherits.
  void lock_all() {
    mutex_.lock();
    for (Shard& shard : shards_) shard.mutex.lock();
  }
  void unlock_all() {
    for (Shard& shard : shards_) shard.mutex.unlock();
    mutex_.unlock();
  }

 private:
  static int64_t block_size(int64_t bytes) {
    return caching(bytes) ? class_size(class_of(bytes)) : bytes > 0 ? bytes : 1;
  }

  Shard& own_shard() {
    thread_local const size_t index = next_shard_.fetch_add(1) % shards_.size();
    return shards_[index];
  }

  std::byte* take(int c) {
    Shard& own = own_shard();
    if (std::byte* block = own.take(c)) return block;
    for (Shard& other : shards_) {
      if (&other == &own) continue;
      if (std::byte* block = other.take(c)) return block;
    }
    return nullptr;
  }

  std::byte* allocate_from_system(int64_t bytes, int64_t size) {
    held_.fetch_add(size);
    if (caching(bytes)) {
      std::lock_guard lock(mutex_);
      shrink(limit(live_.load() + size));
    }
    std::byte* block = system_allocate(size);
    if (!block && caching(bytes)) {
      release();
      block = system_allocate(size);
    }
    if (!block) held_.fetch_sub(size);
    check<OutOfMemory>(block != nullptr, "storage: out of memory: requested ", bytes, " bytes, ",
                       live_.load(), " are in use");
    system_allocations_.fetch_add(1, std::memory_order_relaxed);
    return block;
  }

  // ---- the limit on cached memory; callers hold mutex_ ----
  //
  // Each class keeps its own blocks, so sizes that vary at random would fill all classes. Live and
  // cached memory together stay below 5/4 of the recent peak plus 16 MB; training steps of fixed
  // shapes need 1.15 times their peak. A miss beyond the limit first evicts cached blocks, one per
  // class in turn: a step that needs slightly more than the limit then has few misses, whereas the
  // least recently used block would be the next one needed.
  //
  // "Recent" is the current window and the previous one. A window ends when 64 times the peak has
  // been freed, many training steps, so that a small model does not keep forever the memory of a
  // large one before it.

  int64_t high(int64_t live) const { return std::max({high_, window_, mark_.load(), live}); }
  int64_t limit(int64_t live) const { return high(live) / 4 * 5 + (int64_t{16} << 20); }

  // Evicts cached blocks until at most `most` bytes are held. Evicts at least 1 MB, large blocks
  // first, so that a series of small misses does not evict each time.
  void shrink(int64_t most) {
    int64_t excess = held_.load() - most;
    if (excess <= 0) return;
    excess = std::max(excess, int64_t{1} << 20);
    first_shard_ = (first_shard_ + 1) % shards_.size();
    for (const int smallest : {class_of(excess / 8), 0}) {
      for (size_t i = 0; i < shards_.size() && excess > 0; ++i) {
        Shard& shard = shards_[(first_shard_ + i) % shards_.size()];
        const int64_t evicted = shard.evict(excess, smallest, turn_);
        held_.fetch_sub(evicted);
        excess -= evicted;
      }
    }
  }

  void report(int64_t freed) {
    std::lock_guard lock(mutex_);
    freed_ += freed;
    if (freed_ / 64 < high(0)) return;
    freed_ = 0;
    collect_mark();
    high_ = std::exchange(window_, 0);
    shrink(limit(0));
  }

  void collect_mark() {
    const int64_t mark = mark_.exchange(live_.load());
    peak_ = std::max(peak_, mark);
    window_ = std::max(window_, mark);
  }

  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> mark_{0};  // maximum of live_ since collect_mark()
  std::atomic<int64_t> held_{0};  // from the system: live and cached
  std::atomic<int64_t> system_allocations_{0};
  std::atomic<size_t> next_shard_{0};
  std::array<Shard, 16> shards_;

  std::mutex mutex_;    // guards the members below; locked before a shard's mutex, never after
  int64_t peak_ = 0;    // maximum of live_ from reset_peak() to collect_mark()
  int64_t window_ = 0;  // maximum of live_ in this window up to collect_mark()
  int64_t high_ = 0;    // maximum of live_ in the previous window
  int64_t freed_ = 0;   // bytes freed in this window
  int turn_ = 0;        // the class to evict from next
  size_t first_shard_ = 0;
};

// Never destroyed: tensors in static variables may outlive any static object.
Allocator& allocator() {
  static Allocator& instance = *new Allocator;
  return instance;
}

// A forked child has only the forking thread: no other could unlock a mutex there.
[[maybe_unused]] const int allocator_at_fork =
    pthread_atfork([] { allocator().lock_all(); }, [] { allocator().unlock_all(); },
                   [] { allocator().unlock_all(); });

}  // namespace

int64_t array_bytes(int64_t n, int64_t size) {
  check<OutOfMemory>(n >= 0 && n <= max_bytes / size, "storage: cannot allocate ", n,
                     " elements of ", size, " bytes");
  return n * size;
}

Storage::Storage(int64_t bytes) : data_(allocator().allocate(bytes)), bytes_(bytes) {}
Storage::~Storage() {
  if (!owner_) allocator().free(data_, bytes_);
}

MemoryStats memory_stats() { return allocator().stats(); }
void reset_peak_memory() { allocator().reset_peak(); }
void release_cached_memory() { allocator().release(); }

}  // namespace gradus
