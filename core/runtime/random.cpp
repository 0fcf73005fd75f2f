#include "gradus/core/runtime/random.h"

#include <atomic>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"

namespace gradus {

RandomKey Generator::reserve(int64_t numbers) {
  check(numbers >= 0, "Generator::reserve: expected a count >= 0, got ", numbers);
  const RandomKey key = state_;
  state_.counter += static_cast<uint64_t>(numbers) / 4 + (numbers % 4 != 0);
  return key;
}

Generator& default_generator() {
  static std::atomic<uint64_t> threads{0};
  thread_local Generator generator(threads.fetch_add(1) * 0x9E3779B97F4A7C15u);  // the first: 0
  return generator;
}

void manual_seed(uint64_t seed) { default_generator() = Generator(seed); }

}  // namespace gradus
