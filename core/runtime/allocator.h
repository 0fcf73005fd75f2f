#pragma once
// Memory: 64-byte aligned blocks from a caching allocator. A freed block is kept and handed out
// again, so that after its first step a training loop asks the system for no memory: the C library
// would give large blocks back and have them faulted in again, page by page.
//
// What is held, live and cached, stays below 5/4 of the most that was lately live, and 16 MB, also
// where shapes vary from step to step. "Lately" are the last 64 to 128 times that much memory
// allocated and freed, some dozen training steps: so a large model's memory comes back to the
// system while a smaller one runs after it, and at once with release_cached_memory().
//
// A forked child may go on using gradus, with threads of its own.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gradus {

/// What the allocator holds, in bytes (rounded up to its block sizes).
struct MemoryStats {
  int64_t live = 0;                ///< held by tensors now
  int64_t peak = 0;                ///< the most that was ever live since reset_peak_memory()
  int64_t cached = 0;              ///< freed by tensors and kept for reuse
  int64_t system_allocations = 0;  ///< how often memory was asked of the system
};
/// What it holds now, of all threads.
MemoryStats memory_stats();

/// Sets the peak to what is live now.
void reset_peak_memory();

/// Gives the cached blocks back to the system.
void release_cached_memory();

/// The bytes of n elements of `size` bytes each. Throws Error if n is negative or they are too
/// many.
int64_t array_bytes(int64_t n, int64_t size);

/// A block of memory shared by the tensors that view it. Under a sanitizer blocks are not cached,
/// so that overruns show.
class Storage {
 public:
  /// Uninitialised memory of `bytes` bytes. Throws Error if there is none.
  explicit Storage(int64_t bytes);
  /// Memory that lies within what `owner` keeps.
  Storage(std::shared_ptr<const void> owner, std::byte* data, int64_t bytes)
      : owner_(std::move(owner)), data_(data), bytes_(bytes) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Aligned to 64 bytes.
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }  ///< as asked for

  /// How often the content was changed in place: backward compares it with what it was on saving.
  uint64_t version = 0;

 private:
  std::shared_ptr<const void> owner_;  // null: the allocator
  std::byte* data_;
  int64_t bytes_;
};

/// Scratch memory for a kernel, from the same cache: `Scratch<float> s(n); s[0]`, s.data().
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t n) : storage_(array_bytes(n, sizeof(T))) {}
  ///@{
  /// Uninitialised at first.
  T* data() const { return reinterpret_cast<T*>(storage_.data()); }
  T& operator[](int64_t i) const { return data()[i]; }
  ///@}

 private:
  Storage storage_;
};

}  // namespace gradus
