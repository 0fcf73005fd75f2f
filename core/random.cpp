#include "gradus/core/random.h"

#include "gradus/core/error.h"

namespace gradus {

RandomKey Generator::reserve(int64_t numbers) {
  check(numbers >= 0, "Generator::reserve: expected a count >= 0, got ", numbers);
  const RandomKey key = state_;
  state_.counter += static_cast<uint64_t>(numbers) / 4 + (numbers % 4 != 0);
  return key;
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator() = Generator(seed); }

}  // namespace gradus
