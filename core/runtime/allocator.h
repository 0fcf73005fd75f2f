#pragma once
// Memory: 64-byte aligned blocks from a caching allocator. Freed blocks are kept for reuse, so a
// training loop with fixed shapes soon allocates nothing more from the system. malloc would give
// large blocks back to the system, and each new use of them would cost one page fault per page.
//
// Memory in use and cached memory together stay below 16 MB + 5/4 of the recent peak of memory in
// use, even if shapes vary from step to step. A peak counts as recent until the blocks freed after
// it add up to 64 to 128 times its size, which takes a few dozen training steps of one model. A
// small model therefore does not hold the memory of an earlier large model forever.
// release_cached_memory() gives the cached memory back to the system at once.
//
// A forked child process may continue to use gradus, with its own threads, unless it was forked
// inside a loop body of parallel_for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gradus {

/// The allocator's statistics. Sizes are in bytes. A block counts with its full size, which may be
/// larger than the size requested.
struct MemoryStats {
  int64_t live = 0;                ///< total size of the blocks that tensors and kernels use
  int64_t peak = 0;                ///< maximum of `live` since the last reset_peak_memory()
  int64_t cached = 0;              ///< total size of the freed blocks that are kept for reuse
  int64_t system_allocations = 0;  ///< number of allocations from the operating system so far
};
/// Returns the allocator's current statistics, summed over all threads.
MemoryStats memory_stats();

/// Sets MemoryStats::peak to the current value of MemoryStats::live.
void reset_peak_memory();

/// Gives the freed blocks that are kept for reuse back to the operating system.
void release_cached_memory();

/// Returns n * size, the number of bytes of an array of n elements of `size` bytes each. Throws
/// Error if n is negative or if the array would take more than 2^47 bytes.
int64_t array_bytes(int64_t n, int64_t size);

/// A block of memory shared by the tensors that view it.
class Storage {
 public:
  /// Allocates `bytes` uninitialised bytes. Throws OutOfMemory if there is not enough memory, or if
  /// `bytes` is negative. AddressSanitizer detects accesses beyond these bytes.
  explicit Storage(int64_t bytes);
  /// Uses `bytes` bytes of existing memory at `data`. The Storage holds `owner`, which keeps the
  /// memory alive and must not be null.
  Storage(std::shared_ptr<const void> owner, std::byte* data, int64_t bytes)
      : owner_(std::move(owner)), data_(data), bytes_(bytes) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Returns a pointer to the first byte. It is aligned to 64 bytes if the Storage allocated the
  /// memory itself.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }  ///< the size given to the constructor
  /// Returns whether the memory belongs to an `owner` passed to the constructor. Such an owner may
  /// read the memory even after all tensors that use it are destroyed.
  bool has_owner() const { return owner_ != nullptr; }

  /// The number of in-place changes so far. When a graph saves a tensor, it stores this number, and
  /// backward throws Error if the number has changed since.
  uint64_t version = 0;

 private:
  std::shared_ptr<const void> owner_;  // null: the allocator owns the memory
  std::byte* data_;
  int64_t bytes_;
};

/// A temporary array of n uninitialised elements of type T, for kernels. The memory comes from the
/// caching allocator. Example: `Scratch<float> s(n); s[0] = 1;`
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t n) : storage_(array_bytes(n, sizeof(T))) {}
  ///@{
  /// Returns a pointer to the elements, or element i. The elements are uninitialised.
  T* data() const { return reinterpret_cast<T*>(storage_.data()); }
  T& operator[](int64_t i) const { return data()[i]; }
  ///@}

 private:
  Storage storage_;
};

}  // namespace gradus
