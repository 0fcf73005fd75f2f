#include "gradus/core/allocator.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>

#include "gradus/core/error.h"

#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRADUS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define GRADUS_SANITIZER 1
#endif
#endif

namespace gradus {

namespace {

#if defined(GRADUS_SANITIZER)
constexpr bool caching = false;
#else
constexpr bool caching = true;
#endif

constexpr int64_t alignment = 64;
constexpr int64_t huge_page = int64_t{1} << 21;
// More than an x86-64 or arm64 process can address: refused without asking the system.
constexpr int64_t max_bytes = int64_t{1} << 47;

// Block sizes: multiples of 64 up to 512, then every power of two in 8 steps, so that a block is at
// most an eighth larger than what was asked for.
constexpr int classes = 8 + 8 * (47 - 9);

int class_of(int64_t bytes) {
  const uint64_t last = bytes > 0 ? static_cast<uint64_t>(bytes) - 1 : 0;
  if (last < 512) return static_cast<int>(last / 64);
  const int shift = std::bit_width(last) - 4;  // last >> shift is in [8, 16)
  return 8 * (shift - 6) + static_cast<int>(last >> shift);
}

int64_t class_size(int c) {
  if (c < 8) return 64 * (c + 1);
  return static_cast<int64_t>(c % 8 + 9) << (c / 8 + 5);
}

std::byte* system_allocate(int64_t bytes) {
  // Large blocks on huge pages: fewer page faults and TLB misses (memory is swept 1.4 times as
  // fast).
  const bool large = caching && bytes >= huge_page;
  void* p = nullptr;
  if (posix_memalign(&p, static_cast<size_t>(large ? huge_page : alignment),
                     static_cast<size_t>(bytes)) != 0)
    return nullptr;
#if defined(__linux__)
  if (large) madvise(p, static_cast<size_t>(bytes / huge_page * huge_page), MADV_HUGEPAGE);
#endif
  return static_cast<std::byte*>(p);
}

// The free blocks of one class, linked through their first bytes.
struct FreeBlock {
  FreeBlock* next;
};

// Each thread frees into and takes from its own shard, so that threads rarely meet at a lock. A
// thread whose shard lacks a block looks into the others' before it asks the system.
struct alignas(64) Shard {
  std::mutex mutex;
  std::array<FreeBlock*, classes> free{};

  std::byte* take(int c) {
    std::lock_guard lock(mutex);
    FreeBlock* block = free[static_cast<size_t>(c)];
    if (block) free[static_cast<size_t>(c)] = block->next;
    return reinterpret_cast<std::byte*>(block);
  }
  void put(int c, std::byte* data) {
    auto* block = reinterpret_cast<FreeBlock*>(data);
    std::lock_guard lock(mutex);
    block->next = free[static_cast<size_t>(c)];
    free[static_cast<size_t>(c)] = block;
  }
};

class Allocator {
 public:
  std::byte* allocate(int64_t bytes) {
    check(bytes >= 0 && bytes < max_bytes, "storage: cannot allocate ", bytes, " bytes");
    const int64_t size = block_size(bytes);
    std::byte* block = caching ? take(class_of(bytes)) : nullptr;
    if (!block) block = allocate_from_system(bytes, size);
    const int64_t live = live_.fetch_add(size, std::memory_order_relaxed) + size;
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < live && !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
    }
    return block;
  }

  void free(std::byte* block, int64_t bytes) {
    const int64_t size = block_size(bytes);
    live_.fetch_sub(size, std::memory_order_relaxed);
    if (caching) {
      own_shard().put(class_of(bytes), block);
    } else {
      held_.fetch_sub(size, std::memory_order_relaxed);
      std::free(block);
    }
  }

  void release() {
    for (Shard& shard : shards_) {
      std::array<FreeBlock*, classes> lists{};
      {
        std::lock_guard lock(shard.mutex);
        lists.swap(shard.free);
      }
      for (int c = 0; c < classes; ++c) {
        for (FreeBlock* block = lists[static_cast<size_t>(c)]; block;) {
          FreeBlock* next = block->next;
          std::free(block);
          held_.fetch_sub(class_size(c), std::memory_order_relaxed);
          block = next;
        }
      }
    }
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
  }

  MemoryStats stats() const {
    MemoryStats s;
    s.live = live_.load(std::memory_order_relaxed);
    s.peak = peak_.load(std::memory_order_relaxed);
    s.cached = held_.load(std::memory_order_relaxed) - s.live;
    s.system_allocations = system_allocations_.load(std::memory_order_relaxed);
    return s;
  }

  void reset_peak() { peak_.store(live_.load()); }

 private:
  static int64_t block_size(int64_t bytes) {
    return caching ? class_size(class_of(bytes)) : bytes > 0 ? bytes : 1;
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
    std::byte* block = system_allocate(size);
    if (!block && caching) {
      release();
      block = system_allocate(size);
    }
    check(block != nullptr, "storage: out of memory: asked for ", bytes, " bytes, ", stats().live,
          " are in use");
    system_allocations_.fetch_add(1, std::memory_order_relaxed);
    held_.fetch_add(size, std::memory_order_relaxed);
    return block;
  }

  std::atomic<int64_t> live_{0}, peak_{0};
  std::atomic<int64_t> held_{0};  // from the system: live and cached
  std::atomic<int64_t> system_allocations_{0};
  std::atomic<size_t> next_shard_{0};
  std::array<Shard, 16> shards_;
};

// Never destroyed: tensors in static variables may outlive any static object.
Allocator& allocator() {
  static Allocator& instance = *new Allocator;
  return instance;
}

}  // namespace

int64_t array_bytes(int64_t n, int64_t size) {
  check(n >= 0 && n <= max_bytes / size, "storage: cannot allocate ", n, " elements of ", size,
        " bytes");
  return n * size;
}

Storage::Storage(int64_t bytes) : data_(allocator().allocate(bytes)), bytes_(bytes) {}
Storage::~Storage() { allocator().free(data_, bytes_); }

MemoryStats memory_stats() { return allocator().stats(); }
void reset_peak_memory() { allocator().reset_peak(); }
void release_cached_memory() { allocator().release(); }

}  // namespace gradus
