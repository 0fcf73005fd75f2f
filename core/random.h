#pragma once
// Random numbers from a counter-based generator: the number drawn for element i is a function of
// (seed, counter, i) alone, so it is the same at any thread count.
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.

#include <array>
#include <cstdint>

namespace gradus {

/// Where a random op's numbers come from: a seed and the first counter of its own range.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t counter = 0;
};

/// The four 32-bit words of Philox4x32-10 for counter key.counter + block.
std::array<uint32_t, 4> philox(RandomKey key, uint64_t block);

/// A stream of random keys. Its state is two numbers that can be saved and set.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}
  /// A key for an op that draws `numbers` 32-bit words; the stream moves past them.
  RandomKey reserve(int64_t numbers);
  RandomKey state() const { return state_; }
  void set_state(RandomKey state) { state_ = state; }

 private:
  RandomKey state_;
};

/// The calling thread's generator, which every random op draws from unless told otherwise.
Generator& default_generator();

/// Seeds the calling thread's generator.
void manual_seed(uint64_t seed);

/// A uniform number in [0, 1) with 24 (float) or 53 bits from words of one Philox block.
inline float uniform_float(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
inline double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>(((static_cast<uint64_t>(high) << 32) | low) >> 11) * 0x1p-53;
}

}  // namespace gradus
