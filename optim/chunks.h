#pragma once
// Chunks: divides several arrays into chunks, for one parallel loop over all of them.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace gradus::optim {

/// Divides several arrays into chunks and numbers all chunks consecutively, from 0. The chunks do
/// not depend on the number of threads. If the sums of the chunks are added in order, the total
/// therefore has the same bits at any number of threads.
class Chunks {
 public:
  static constexpr int64_t grain = 16384;  ///< number of elements per chunk; the last chunk of an
                                           ///< array may have fewer

  /// Appends an array of n elements, and numbers its chunks after those of the earlier arrays.
  void add(int64_t n) { ends_.push_back(count() + (n + grain - 1) / grain); }
  /// Returns the number of chunks of all arrays.
  int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Returns the index of the array that contains the chunk, and the index of the chunk's first
  /// element in that array.
  std::pair<size_t, int64_t> operator[](int64_t chunk) const {
    const auto at = std::upper_bound(ends_.begin(), ends_.end(), chunk);
    return {static_cast<size_t>(at - ends_.begin()),
            (chunk - (at == ends_.begin() ? 0 : at[-1])) * grain};
  }

 private:
  std::vector<int64_t> ends_;
};

}  // namespace gradus::optim
