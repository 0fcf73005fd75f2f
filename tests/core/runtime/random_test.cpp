// The random number generator.

#include "gradus/core/runtime/random.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/tensor/tensor.h"

namespace random_test {

using namespace gradus;
using namespace gradus::core;

TEST_CASE("Philox4x32-10 gives its authors' known answers", "[random]") {
  using Words = std::array<uint32_t, 4>;
  const uint32_t ff = 0xffffffff;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({ff, ff, ff, ff}, {ff, ff}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a key's block is its counter plus the block's number", "[random]") {
  const uint64_t seed = 0x123456789abcdef0, counter = 0xfffffffffffffffe;
  CHECK(philox({0, 0}, 0)[0] == 0x6627e8d5);
  CHECK(philox({seed, counter}, 1) == philox({seed, counter + 1}, 0));
  CHECK(philox({seed, counter}, 3) == philox({seed, 1}, 0));  // wraps around
  CHECK(philox({seed, 0}, 0) != philox({seed + 1, 0}, 0));
  CHECK(philox({seed, 0}, 0) != philox({seed + (uint64_t{1} << 32), 0}, 0));
}

TEST_CASE("a generator's keys do not overlap, and its state can be set", "[random]") {
  Generator g(7);
  const RandomKey a = g.reserve(5);  // two blocks
  const RandomKey state = g.state();
  const RandomKey b = g.reserve(1);
  CHECK(a.seed == 7);
  CHECK(a.counter == 0);
  CHECK(b.counter == 2);
  CHECK(g.reserve(0).counter == 3);
  CHECK(g.state().counter == 3);
  g.set_state(state);
  CHECK(g.reserve(1).counter == b.counter);
  CHECK_THROWS_WITH(g.reserve(-1), Catch::Contains("Generator::reserve: expected a count >= 0"));
}

TEST_CASE("each thread has its own generator, and draws numbers of its own", "[random]") {
  manual_seed(3);
  default_generator().reserve(100);
  std::vector<RandomKey> others(3);
  std::vector<std::vector<float>> drawn(3);
  for (size_t i = 0; i < others.size(); ++i)
    std::thread([&, i] {
      others[i] = default_generator().state();
      drawn[i] = rand({4}).to_vector<float>();
      manual_seed(99);
    }).join();
  for (size_t i = 0; i < others.size(); ++i) {
    CHECK(others[i].counter == 0);
    for (size_t j = 0; j < i; ++j) {
      CHECK(others[i].seed != others[j].seed);
      CHECK(drawn[i] != drawn[j]);
    }
  }
  CHECK(default_generator().state().seed == 3);
  CHECK(default_generator().state().counter == 25);
  manual_seed(3);
  CHECK(default_generator().state().counter == 0);
}

TEST_CASE("uniform numbers lie in [0, 1) and fill it", "[random]") {
  CHECK(uniform_float(0) == 0);
  CHECK(uniform_float(0xffffffff) < 1);
  CHECK(uniform_double(0, 0) == 0);
  CHECK(uniform_double(0xffffffff, 0xffffffff) < 1);
  double sum = 0, squares = 0;
  const int n = 40000;
  for (uint64_t i = 0; i < n / 4; ++i) {
    for (uint32_t word : philox({11, 0}, i)) {
      const double u = uniform_float(word);
      sum += u;
      squares += u * u;
    }
  }
  CHECK(sum / n == Approx(0.5).margin(0.005));
  CHECK(squares / n == Approx(1.0 / 3).margin(0.005));
}

}  // namespace random_test
