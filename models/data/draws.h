#pragma once
// Random choices of data. For the library's own use: no public header includes this.

#include <array>
#include <cstdint>

#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/random.h"
#include "gradus/models/data/text/text_data.h"

namespace gradus::models::internal {

/// A stream of random numbers: a function of its key alone.
class Draws {
 public:
  explicit Draws(RandomKey key) : key_(key) {}
  /// A whole number in [0, n), n >= 1: the bias of `mod` is n / 2^64.
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  uint64_t bits() {
    if (next_ == 0) words_ = philox(key_, block_++);
    const uint64_t two = static_cast<uint64_t>(words_[next_]) << 32 | words_[next_ + 1];
    next_ = 2 - next_;
    return two;
  }
  RandomKey key_;
  uint64_t block_ = 0;
  std::array<uint32_t, 4> words_{};
  size_t next_ = 0;  // 0 or 2
};

constexpr int64_t most_rows = 1 << 16, most_indices = 1 << 16, most_steps = int64_t{1} << 32;

/// The key whose counter + i belongs to row i of a random batch. Philox as a hash: the seed, the
/// part and the place in the run are all in key and counter. Within the limits checked here no two
/// rows of a run share a counter. Errors open with `op` and call rows `rows`.
inline RandomKey batch_key(const char* op, const char* rows, Split part, int64_t batch,
                           uint64_t seed, int64_t step, int64_t index) {
  core::check(batch >= 1 && batch <= most_rows, op, ": expected a batch of 1 to ", most_rows, " ",
              rows, ", got ", batch);
  core::check(step >= 0 && step < most_steps && index >= 0 && index < most_indices, op,
              ": expected a step in [0, ", most_steps, ") and an index in [0, ", most_indices,
              "), got ", step, " and ", index);
  return {seed ^ (part == Split::train ? 0 : 0x9e3779b97f4a7c15u),
          (static_cast<uint64_t>(step) << 32) + (static_cast<uint64_t>(index) << 16)};
}

/// A number in [0, n) for row i of the batch with this key.
inline int64_t row_choice(RandomKey key, int64_t row, int64_t n) {
  const auto words = philox(key, static_cast<uint64_t>(row));
  const uint64_t wide = (static_cast<uint64_t>(words[0]) << 32) | words[1];
  return static_cast<int64_t>(wide % static_cast<uint64_t>(n));
}

/// A key of its own for row i of the batch with this key, and a stream.
inline RandomKey row_key(RandomKey key, int64_t row) {
  const auto words = philox(key, static_cast<uint64_t>(row));
  return {static_cast<uint64_t>(words[0]) << 32 | words[1],
          static_cast<uint64_t>(words[2]) << 32 | words[3]};
}
inline Draws row_draws(RandomKey key, int64_t row) { return Draws(row_key(key, row)); }

}  // namespace gradus::models::internal
