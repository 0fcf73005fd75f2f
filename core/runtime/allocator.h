#pragma once
// Memory: 64-byte aligned blocks from a caching allocator. Freed blocks are kept for reuse, so a
// training loop with fixed shapes soon allocates nothing more from the system. malloc would return
// large blocks to the system, and each new use of them would cost one page fault per page.
//
// Live and cached memory together stay below 16 MB + 5/4 of the recent peak of live memory, even if
// shapes vary from step to step. "Recent" covers the last few dozen training steps: the time in
// which the bytes freed add up to 64 to 128 times the peak. If a small model runs after a large
// one, the memory of the large one returns to the system after that time. release_cached_memory()
// returns it at once.
//
// A forked child process may continue to use gradus, with its own threads, unless it was forked
// inside a loop body of parallel_for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gradus {

/// The allocator's statistics. Sizes are in bytes and count whole blocks.
struct MemoryStats {
  int64_t live = 0;                ///< size of the blocks that tensors and kernels use
  int64_t peak = 0;                ///< maximum of `live` since the start or reset_peak_memory()
  int64_t cached = 0;              ///< size of the blocks that are freed and kept for reuse
  int64_t system_allocations = 0;  ///< number of allocations from the system
};
/// Returns the current statistics of all threads together.
MemoryStats memory_stats();

/// Sets the peak to the current `live`.
void reset_peak_memory();

/// Returns the cached blocks to the system.
void release_cached_memory();

/// Returns n * size, the number of bytes of an array of n elements of `size` bytes each. Throws
/// Error if n is negative or too large.
int64_t array_bytes(int64_t n, int64_t size);

/// A block of memory shared by the tensors that view it.
class Storage {
 public:
  /// Allocates `bytes` uninitialised bytes. AddressSanitizer detects overruns of them. Throws Error
  /// if `bytes` is negative or if there is not enough memory.
  explicit Storage(int64_t bytes);
  /// Refers to `bytes` bytes of existing memory at `data`, which `owner` keeps alive. `owner` must
  /// not be null.
  Storage(std::shared_ptr<const void> owner, std::byte* data, int64_t bytes)
      : owner_(std::move(owner)), data_(data), bytes_(bytes) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Returns a pointer to the first byte, aligned to 64 bytes unless the memory has an `owner`.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }  ///< the size given to the constructor
  /// Returns whether the memory belongs to an `owner`. The owner may read the memory even after all
  /// tensors in it are destroyed.
  bool has_owner() const { return owner_ != nullptr; }

  /// Number of in-place changes so far. A graph that saves a tensor notes this number, and backward
  /// checks that it is still the same.
  uint64_t version = 0;

 private:
  std::shared_ptr<const void> owner_;  // null: the allocator owns the memory
  std::byte* data_;
  int64_t bytes_;
};

/// Temporary memory for a kernel, from the allocator: `Scratch<float> s(n); s[0] = 1;`
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
