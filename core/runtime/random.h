#pragma once
// Random numbers from a counter-based generator. The number for element i depends only on (seed,
// counter, i), so it is the same at any thread count.
// Philox4x32-10: Salmon, Moraes, Dror, Shaw 2011, "Parallel Random Numbers: As Easy as 1, 2, 3".

#include <array>
#include <cstdint>

namespace gradus {

/// Determines the random numbers of one op. The numbers are computed in blocks of four 32-bit
/// words. Each block is computed from the seed and a counter. The op's blocks have consecutive
/// counters.
struct RandomKey {
  uint64_t seed = 0;     ///< selects the stream
  uint64_t counter = 0;  ///< counter of the op's first four words; the next four use counter + 1
};

/// Returns the four random 32-bit words that Philox4x32-10 computes from `counter` and `key`. For
/// each key, the function is a bijection from counters to words.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  // The 32-bit words are held in 64-bit variables, so that a loop over blocks vectorises without
  // conversions.
  constexpr uint64_t word = 0xFFFFFFFFu;
  uint64_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint64_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53u * c0, p1 = 0xCD9E8D57u * c2;
    c0 = p1 >> 32 ^ c1 ^ k0;
    c1 = p1 & word;
    c2 = p0 >> 32 ^ c3 ^ k1;
    c3 = p0 & word;
    k0 = (k0 + 0x9E3779B9u) & word;  // 2^32 (golden ratio - 1)
    k1 = (k1 + 0xBB67AE85u) & word;  // 2^32 (sqrt(3) - 1)
  }
  return {static_cast<uint32_t>(c0), static_cast<uint32_t>(c1), static_cast<uint32_t>(c2),
          static_cast<uint32_t>(c3)};
}

/// Returns block number `block` of the random numbers that `key` determines: four 32-bit words.
/// Calls philox4x32 with the counter key.counter + block and the key key.seed.
inline std::array<uint32_t, 4> philox(RandomKey key, uint64_t block) {
  const uint64_t counter = key.counter + block;
  return philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                    {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

namespace core {
/// Generates RandomKeys, one per random op. Its state, a seed and a counter, can be saved and
/// restored.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}
  /// Returns a key for an op that uses `numbers` random 32-bit words. Advances the counter by the
  /// number of blocks that contain these words (four per block), so later keys give other words.
  /// Throws Error if `numbers` is negative.
  RandomKey reserve(int64_t numbers);
  RandomKey state() const { return state_; }  ///< the seed, and the counter of the next key
  /// Restores a state returned by state().
  void set_state(RandomKey state) { state_ = state; }

 private:
  RandomKey state_;
};
}  // namespace core

/// Returns the calling thread's generator, which random ops use by default. Each thread's generator
/// starts with a different seed. The seed depends on the order in which threads first use their
/// generators. For numbers that do not depend on this order, call manual_seed() on each thread.
core::Generator& default_generator();

/// Restarts the calling thread's generator with this seed.
void manual_seed(uint64_t seed);

///@{
/// Returns a number that is uniformly distributed in [0, 1). uniform_float uses 24 bits of one
/// random word, and uniform_double uses 53 bits of two random words.
inline float uniform_float(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
inline double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>(((static_cast<uint64_t>(high) << 32) | low) >> 11) * 0x1p-53;
}
///@}

}  // namespace gradus
