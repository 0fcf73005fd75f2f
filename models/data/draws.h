#pragma once
// Random numbers for choosing the data of a batch. Internal: no public header includes this file.

#include <array>
#include <cstdint>

#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/random.h"
#include "gradus/models/data/text/text_data.h"

namespace gradus::models::internal {

/// A stream of random numbers. The key determines the whole stream.
class Draws {
 public:
  explicit Draws(RandomKey key) : key_(key) {}
  /// Returns a uniform random integer in [0, n), for n >= 1. The modulo adds a bias of at most
  /// n / 2^64.
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  /// Returns a uniform random number in [0, 1).
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
  size_t next_ = 0;  // index in words_ of the two words that bits() uses next: 0 or 2
};

constexpr int64_t max_rows = 1 << 16, max_indices = 1 << 16, max_steps = int64_t{1} << 32;

/// Arguments of the random_batch methods: the split, the number of rows, the seed, the training
/// step, and the index of the batch within the step.
struct BatchPosition {
  Split split;
  int64_t batch;
  uint64_t seed;
  int64_t step, index;
};

/// Returns the random key of the batch `at`. The key's seed combines at.seed and the split; the
/// key's counter combines the step and the index. Row i of the batch uses the random numbers
/// philox(key, i). Two different rows with the same seed and split never share numbers. Throws
/// Error unless 1 <= batch <= max_rows, 0 <= step < max_steps and 0 <= index < max_indices. The
/// message begins with `op` and calls the batch's rows `rows`, for example "windows".
inline RandomKey batch_key(const char* op, const char* rows, const BatchPosition& at) {
  const auto& [split, batch, seed, step, index] = at;
  core::check(batch >= 1 && batch <= max_rows, op, ": expected a batch of 1 to ", max_rows, " ",
              rows, ", got ", batch);
  core::check(step >= 0 && step < max_steps && index >= 0 && index < max_indices, op,
              ": expected a step in [0, ", max_steps, ") and an index in [0, ", max_indices,
              "), got ", step, " and ", index);
  return {seed ^ (split == Split::train ? 0 : 0x9e3779b97f4a7c15u),
          (static_cast<uint64_t>(step) << 32) + (static_cast<uint64_t>(index) << 16)};
}

/// Returns a random integer in [0, n) for one row of a batch, where n >= 1. `key` is the key of the
/// batch.
inline int64_t row_choice(RandomKey key, int64_t row, int64_t n) {
  const auto words = philox(key, static_cast<uint64_t>(row));
  const uint64_t wide = (static_cast<uint64_t>(words[0]) << 32) | words[1];
  return static_cast<int64_t>(wide % static_cast<uint64_t>(n));
}

/// Returns the key of one row. `key` is the key of the row's batch.
inline RandomKey row_key(RandomKey key, int64_t row) {
  const auto words = philox(key, static_cast<uint64_t>(row));
  return {static_cast<uint64_t>(words[0]) << 32 | words[1],
          static_cast<uint64_t>(words[2]) << 32 | words[3]};
}
/// Returns the stream of random numbers of one row. `key` is the key of the row's batch.
inline Draws row_draws(RandomKey key, int64_t row) { return Draws(row_key(key, row)); }

}  // namespace gradus::models::internal
