// The random words an op reads: exactly the blocks [counter, counter + words/4) of the thread's
// generator, so that no two draws share a number; and randint ranges beyond 32 bits.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "gradus/core/core.h"
#include "gradus/core/runtime/random.h"

namespace random_ranges_test {

using namespace gradus;
using namespace gradus::core;

namespace {

using Values = std::vector<double>;

constexpr int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 1000, 1023};

uint32_t word(RandomKey key, int64_t i) {
  return philox(key, static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)];
}
// The i-th pair of words, as 64 bits.
uint64_t pair(RandomKey key, int64_t i) {
  return uint64_t{word(key, 2 * i)} << 32 | word(key, 2 * i + 1);
}
double uniform24(RandomKey key, int64_t i) { return (word(key, i) >> 8) * 0x1p-24; }
double uniform53(RandomKey key, int64_t i) {
  return static_cast<double>(pair(key, i) >> 11) * 0x1p-53;
}

// Box-Muller: two numbers from two words, in float64 from two pairs of words.
double normal(RandomKey key, int64_t i, Dtype dtype) {
  const int64_t first = i / 2 * 2;
  const double u =
      dtype == float32 ? (word(key, first) + 1.0) * 0x1p-32 : 1 - uniform53(key, first);
  const double v = dtype == float32 ? uniform24(key, first + 1) : uniform53(key, first + 1);
  const double angle = 2 * std::numbers::pi * v;
  return std::sqrt(-2 * std::log(u)) * (i % 2 ? std::sin(angle) : std::cos(angle));
}

// floor(bits n / 2^64)
uint64_t scaled(uint64_t bits, uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{bits} * n >> 64);
}

Values permutation(RandomKey key, int64_t n) {
  Values p(static_cast<size_t>(n));
  std::iota(p.begin(), p.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) {
    const uint64_t bits = uint64_t{word(key, 4 * i)} << 32 | word(key, 4 * i + 1);
    std::swap(p[static_cast<size_t>(i)], p[scaled(bits, static_cast<uint64_t>(i) + 1)]);
  }
  return p;
}

Values each(int64_t n, const std::function<double(int64_t)>& f) {
  Values out;
  for (int64_t i = 0; i < n; ++i) out.push_back(f(i));
  return out;
}

// An op that draws random numbers: `draw` gives n of them, `expected` computes them from Philox's
// words, and `blocks` is the number of four-word blocks that they take.
struct Draw {
  std::string name;
  std::function<Tensor(int64_t n)> draw;
  std::function<Values(RandomKey key, int64_t n)> expected;
  std::function<int64_t(int64_t n)> blocks;
};

// The weights of attention after dropout, for 2 heads, 3 queries and n keys with equal scores,
// times n: each is 0 or 1/(1-p). With the identity as values, attention returns its weights.
Tensor attention_weights(int64_t n, Dtype dtype) {
  const Tensor q = zeros({2, 3, 1}, dtype), k = zeros({2, n, 1}, dtype);
  const Tensor v = eye(n, dtype).unsqueeze(0).expand({2, n, n});
  return scaled_dot_product_attention(q, k, v, {.dropout = 0.25}) * static_cast<double>(n);
}

void add_floating(std::vector<Draw>& all, Dtype dtype) {
  const std::string suffix = dtype == float32 ? " float32" : " float64";
  const auto kept = [](double p) {
    return [p](RandomKey key, int64_t i) { return uniform24(key, i) >= p ? 1 / (1 - p) : 0; };
  };
  const auto blocks = [dtype](int64_t n) { return dtype == float32 ? (n + 3) / 4 : (n + 1) / 2; };
  all.push_back({"rand" + suffix, [=](int64_t n) { return rand({n}, dtype); },
                 [=](RandomKey key, int64_t n) {
                   return each(n, [=](int64_t i) {
                     return dtype == float32 ? uniform24(key, i) : uniform53(key, i);
                   });
                 },
                 blocks});
  all.push_back({"randn" + suffix, [=](int64_t n) { return randn({n}, dtype); },
                 [=](RandomKey key, int64_t n) {
                   return each(n, [=](int64_t i) { return normal(key, i, dtype); });
                 },
                 blocks});
  all.push_back({"multinomial" + suffix,
                 [=](int64_t n) {
                   return multinomial(ones({3, 1000}, dtype), n, true);
                 },
                 [](RandomKey key, int64_t n) {
                   return each(3 * n,
                               [=](int64_t i) { return std::floor(1000 * uniform53(key, i)); });
                 },
                 [](int64_t n) { return (3 * n + 1) / 2; }});
  all.push_back({"dropout" + suffix, [=](int64_t n) { return dropout(ones({n}, dtype), 0.375); },
                 [=](RandomKey key, int64_t n) {
                   return each(n, [=](int64_t i) { return kept(0.375)(key, i); });
                 },
                 [](int64_t n) { return (n + 3) / 4; }});
  all.push_back({"attention's dropout" + suffix,
                 [=](int64_t n) { return attention_weights(n, dtype); },
                 [=](RandomKey key, int64_t n) {
                   return each(6 * n, [=](int64_t i) { return kept(0.25)(key, i); });
                 },
                 [](int64_t n) { return (6 * n + 3) / 4; }});
}

std::vector<Draw> draws() {
  std::vector<Draw> all;
  add_floating(all, float32);
  add_floating(all, float64);
  all.push_back({"randint", [](int64_t n) { return randint(0, int64_t{1} << 40, {n}); },
                 [](RandomKey key, int64_t n) {
                   return each(n,
                               [=](int64_t i) { return static_cast<double>(pair(key, i) >> 24); });
                 },
                 [](int64_t n) { return (n + 1) / 2; }});
  all.push_back({"randperm", [](int64_t n) { return randperm(n); }, permutation,
                 [](int64_t n) { return n; }});
  return all;
}

double largest_difference(const Values& a, const Values& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}

}  // namespace

TEST_CASE("a draw reads the next words of the generator, and moves it past them", "[random]") {
  for (const Draw& op : draws()) {
    // A counter beyond 32 bits: the words depend on its upper half too.
    default_generator().set_state({0x123456789abcdef0, 0x1fffffffe});
    for (int64_t n : sizes)
      for (int repeat = 0; repeat < 2; ++repeat) {
        CAPTURE(op.name, n, repeat);
        const RandomKey before = default_generator().state();
        const Values drawn = op.draw(n).to_vector<double>();
        const RandomKey after = default_generator().state();
        CHECK(after.seed == before.seed);
        CHECK(after.counter - before.counter == static_cast<uint64_t>(op.blocks(n)));
        CHECK(largest_difference(drawn, op.expected(before, n)) < 1e-5);
      }
  }
}

TEST_CASE("draws longer than a chunk read the next words too", "[random]") {
  const int64_t n = 70'003;  // more than 4096 blocks, and not a whole number of blocks
  for (const Draw& op : draws()) {
    if (op.name.starts_with("attention")) continue;  // its n x n values would be too large
    CAPTURE(op.name);
    manual_seed(5);
    default_generator().reserve(12);
    const RandomKey before = default_generator().state();
    const Values drawn = op.draw(n).to_vector<double>();
    CHECK(default_generator().state().counter == 3 + static_cast<uint64_t>(op.blocks(n)));
    CHECK(largest_difference(drawn, op.expected(before, n)) < 1e-5);
  }
}

TEST_CASE("dropout keeps an element whose number equals p", "[random]") {
  manual_seed(5);
  const double p = uniform24(default_generator().state(), 0);
  CHECK(dropout(ones({4}), p)[0].item() == Approx(1 / (1 - p)));
}

TEST_CASE("consecutive draws share no numbers", "[random]") {
  manual_seed(77);
  for (int64_t n : {1, 3, 4, 5, 1000}) {
    Values all;
    for (int i = 0; i < 3; ++i)
      for (const Tensor& x : {rand({n}, float64), randn({n}, float64),
                              randint(INT64_MIN, INT64_MAX, {n}).to(float64)})
        for (double value : x.to_vector<double>()) all.push_back(value);
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  }
}

TEST_CASE("drawing nothing, or dropout that is off, does not advance the generator", "[random]") {
  manual_seed(3);
  randn({0, 3}), rand({0}), randint(0, 5, {2, 0}), randperm(0);
  const Tensor x = ones({2, 3, 4});
  dropout(x, 0);
  scaled_dot_product_attention(x, x, x);
  {
    const EvalMode eval;
    dropout(x, 0.5);
    scaled_dot_product_attention(x, x, x, {.dropout = 0.5});
  }
  CHECK(default_generator().state().counter == 0);
}

TEST_CASE("a draw that throws does not advance the generator", "[random]") {
  manual_seed(3);
  const Tensor x = ones({2, 3, 4});
  CHECK_THROWS_AS(rand({2}, int64), Error);
  CHECK_THROWS_AS(randn({2}, boolean), Error);
  CHECK_THROWS_AS(rand({-1}), Error);
  CHECK_THROWS_AS(randint(3, 3, {8}), Error);
  CHECK_THROWS_AS(randint(0, 3, {-8}), Error);
  CHECK_THROWS_AS(randperm(-1), Error);
  CHECK_THROWS_AS(multinomial(tensor({1, -1}), 4, true), Error);
  CHECK_THROWS_AS(multinomial(tensor({1, 0}), 2, false), Error);
  CHECK_THROWS_AS(multinomial(arange(3), 1, true), Error);
  CHECK_THROWS_AS(dropout(x, 1.5), Error);
  CHECK_THROWS_AS(scaled_dot_product_attention(x, x, x, {.dropout = 1.5}), Error);
  CHECK_THROWS_AS(scaled_dot_product_attention(x, x, x, {.mask = ones({3, 5}), .dropout = 0.5}),
                  Error);
  CHECK_THROWS_AS(self_attention(x, 3, 1, {.dropout = 0.5}), Error);
  CHECK(default_generator().state().counter == 0);
}

TEST_CASE("randint fills ranges beyond 32 bits and at the ends of int64", "[random]") {
  struct Range {
    int64_t low, high;
  };
  const int64_t big = int64_t{1} << 32;
  for (const auto& [low, high] : std::vector<Range>{{0, big},
                                                    {0, big + 1},
                                                    {-5, 3 * big + 7},
                                                    {big, big + 10},
                                                    {0, int64_t{1} << 53},
                                                    {0, INT64_MAX},
                                                    {INT64_MIN, 0},
                                                    {INT64_MIN, INT64_MAX},
                                                    {INT64_MIN, INT64_MIN + 3},
                                                    {INT64_MAX - 3, INT64_MAX}}) {
    CAPTURE(low, high);
    manual_seed(9);
    const int n = 20'000;
    const auto drawn = randint(low, high, {n}).to_vector<int64_t>();
    const double range = static_cast<double>(high) - static_cast<double>(low);
    const double width =
        static_cast<double>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
    REQUIRE(width >= 0.99 * range);
    double total = 0, squares = 0;
    int tenths[10] = {};
    bool inside = true;
    for (int64_t x : drawn) {
      inside = inside && x >= low && x < high;
      const double place =
          (static_cast<double>(static_cast<uint64_t>(x) - static_cast<uint64_t>(low)) + 0.5) /
          width;
      total += place, squares += place * place;
      ++tenths[std::clamp(static_cast<int>(place * 10), 0, 9)];
    }
    CHECK(inside);
    CHECK(total / n == Approx(0.5).margin(0.01));
    if (width < 100) continue;
    CHECK(squares / n == Approx(1.0 / 3).margin(0.01));
    for (int count : tenths) CHECK(count == Approx(n / 10).margin(250));
    // The lowest bits vary: a scaled 32-bit number would leave values out.
    int odd = 0;
    for (int64_t x : drawn) odd += static_cast<int>(x & 1);
    CHECK(odd == Approx(n / 2).margin(350));
  }
}

}  // namespace random_ranges_test
