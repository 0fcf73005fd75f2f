// Random tensors and multinomial: distributions, seeds, messages.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "gradus/core/core.h"

namespace random_tensors_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
using Ints = std::vector<int64_t>;
}  // namespace

TEST_CASE("multinomial draws by weight", "[random]") {
  manual_seed(6);
  const Tensor probs = tensor({{0, 1, 3, 0}, {5, 0, 0, 5}});
  const Tensor drawn = multinomial(probs, 20000, true);
  CHECK(drawn.shape() == Shape{2, 20000});
  CHECK(mean(eq(drawn[0], 2).to(float64)).item() == Approx(0.75).margin(0.015));
  CHECK(mean(eq(drawn[0], 1).to(float64)).item() == Approx(0.25).margin(0.015));
  CHECK(mean(eq(drawn[1], 3).to(float64)).item() == Approx(0.5).margin(0.015));
  for (int i = 0; i < 50; ++i) {
    auto both = multinomial(probs, 2).to_vector<int64_t>();
    std::sort(both.begin(), both.begin() + 2);
    std::sort(both.begin() + 2, both.end());
    CHECK(both == Ints{1, 2, 0, 3});
  }
  CHECK(multinomial(tensor({0, 0, 1}, float64), 1).to_vector<int64_t>() == Ints{2});
  // Without replacement, the weights 1, 2, 3 draw index 1 and then 2 with probability 2/6 * 3/4.
  const Tensor three = tensor({1, 2, 3}).expand({20000, 3});
  const Tensor order = multinomial(three, 2);
  const Tensor hits = logical_and(eq(order.select(1, 0), 1), eq(order.select(1, 1), 2));
  CHECK(mean(hits.to(float64)).item() == Approx(0.25).margin(0.015));
}

TEST_CASE("multinomial refuses bad weights", "[random]") {
  CHECK_THROWS_WITH(multinomial(tensor({{1, 1}, {1, -2}}), 1),
                    StartsWith("multinomial: weight -2 at position 1 of row 1"));
  CHECK_THROWS_WITH(multinomial(from_data<float>({1, NAN}, {2}), 1), Contains("position 1"));
  CHECK_THROWS_WITH(multinomial(from_data<double>({1, inf}, {2}), 1), Contains("weight inf"));
  CHECK_THROWS_WITH(multinomial(zeros({2, 3}), 1), "multinomial: the weights of row 0 sum to 0");
  CHECK_THROWS_WITH(multinomial(tensor({1e308, 1e308}, float64), 1, true),
                    "multinomial: the weights of row 0 sum to inf");
  CHECK_THROWS_WITH(
      multinomial(tensor({0, 1, 1}), 3),
      "multinomial: 3 draws without replacement from row 0, which has 2 non-zero weights");
  CHECK_THROWS_WITH(multinomial(ones({2}), 0),
                    StartsWith("multinomial: expected at least one draw"));
  CHECK_THROWS_WITH(multinomial(ones({2}, int64), 1), StartsWith("multinomial: expected float"));
  CHECK_THROWS_WITH(multinomial(scalar(1), 1),
                    StartsWith("multinomial: expected probs (..., k), got ()"));
}

TEST_CASE("random tensors have the right moments", "[random]") {
  manual_seed(7);
  for (const Dtype dtype : {float32, float64}) {
    const Tensor z = randn({1'000'000}, dtype), u = rand({1'000'000}, dtype);
    const Tensor z2 = z * z;
    CHECK(mean(z).item() == Approx(0).margin(0.005));
    CHECK(mean(z2).item() == Approx(1).margin(0.006));
    CHECK(mean(z2 * z).item() == Approx(0).margin(0.016));
    CHECK(mean(z2 * z2).item() == Approx(3).margin(0.05));
    CHECK(mean(lt(z, -1.0).to(float64)).item() == Approx(0.158655).margin(0.0015));
    CHECK(mean(gt(z, 3.0).to(float64)).item() == Approx(0.00134990).margin(0.00015));
    // Adjacent values are independent, including Box-Muller's pairs.
    CHECK(mean(z.slice(0, 1) * z.slice(0, 0, -1)).item() == Approx(0).margin(0.005));
    CHECK(mean(z2.slice(0, 1) * z2.slice(0, 0, -1)).item() == Approx(1).margin(0.015));
    CHECK(mean(u).item() == Approx(0.5).margin(0.0015));
    CHECK(var(u, {0}).item() == Approx(1.0 / 12).margin(0.0005));
    CHECK(min(u).item() >= 0);
    CHECK(max(u).item() < 1);
  }
  const Tensor die = randint(-1, 5, {600'000});
  for (int face = -1; face < 5; ++face)
    CHECK(sum(eq(die, face)).item() == Approx(100'000).margin(1500));
}

TEST_CASE("random tensors depend only on the seed", "[random]") {
  const int threads = num_threads();
  auto draw = [](int n, uint64_t seed) {
    set_num_threads(n);
    manual_seed(seed);
    std::vector<Tensor> made{randn({100'003}),
                             randn({100'003}, float64),
                             rand({50'001}),
                             rand({50'001}, float64),
                             randint(0, 1000, {50'001}).to(float64),
                             randperm(1000).to(float64)};
    std::vector<std::vector<double>> values;
    for (const Tensor& t : made) values.push_back(t.to_vector<double>());
    return values;
  };
  const auto once = draw(1, 11);
  CHECK(once == draw(3, 11));
  CHECK(once != draw(1, 12));
  set_num_threads(threads);
  manual_seed(11);  // a shorter tensor is the start of a longer one
  const auto start = randn({10}).to_vector<double>();
  CHECK(std::equal(start.begin(), start.end(), once[0].begin()));
}

TEST_CASE("randint and randperm: ranges and messages", "[random]") {
  manual_seed(8);
  const Tensor wide = randint(INT64_MIN, INT64_MAX, {1000});
  CHECK(min(wide).item<int64_t>() < -(int64_t{1} << 61));
  CHECK(max(wide).item<int64_t>() > (int64_t{1} << 61));
  CHECK(sum(randint(5, 6, {10})).item<int64_t>() == 50);
  auto p = randperm(1000).to_vector<int64_t>();
  CHECK_FALSE(std::is_sorted(p.begin(), p.end()));
  std::sort(p.begin(), p.end());
  Ints all(1000);
  std::iota(all.begin(), all.end(), 0);
  CHECK(p == all);
  std::vector<int> seen(6);  // all orders of three are equally likely
  for (int i = 0; i < 6000; ++i) {
    const auto q = randperm(3).to_vector<int64_t>();
    ++seen[static_cast<size_t>(2 * q[0] + (q[1] > q[2]))];
  }
  for (int count : seen) CHECK(count == Approx(1000).margin(130));
  CHECK(randperm(0).numel() == 0);
  CHECK(randn({0, 3}).numel() == 0);
  CHECK_THROWS_WITH(randint(3, 3, {2}), "randint: expected low < high, got 3 and 3");
  const RandomKey before = default_generator().state();
  CHECK_THROWS_WITH(randperm(-1), "randperm: expected 0 <= n < 2^59, got -1");
  CHECK_THROWS_WITH(randperm(int64_t{1} << 61),
                    "randperm: expected 0 <= n < 2^59, got 2305843009213693952");
  CHECK(default_generator().state().counter == before.counter);
  CHECK_THROWS_WITH(randperm(-1, before), StartsWith("randperm: expected n >= 0"));
  CHECK_THROWS_WITH(randn({2}, int64), "randn: expected float32 or float64, got int64");
  CHECK_THROWS_WITH(rand({2}, boolean), StartsWith("rand: expected float"));
  CHECK_THROWS_AS(randn({-1}), Error);
}

}  // namespace random_tensors_test
