// Initialisers.

#include "gradus/nn/init.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/core/core.h"
#include "gradus/nn/convolution.h"

namespace init_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

TEST_CASE("initialisers have the right bounds and moments", "[nn]") {
  manual_seed(3);
  auto largest = [](const Tensor& x) { return max(abs(x)).item(); };
  auto deviation = [](const Tensor& x) { return std::sqrt(var(x, {}).item()); };
  const Shape shape{200, 300};
  const double linear_bound = 1 / std::sqrt(300.0), xavier_bound = std::sqrt(6.0 / 500);
  CHECK(largest(nn::init::kaiming_uniform(shape)) <= linear_bound);
  CHECK(largest(nn::init::kaiming_uniform(shape)) == Approx(linear_bound).epsilon(1e-3));
  CHECK(deviation(nn::init::kaiming_uniform(shape)) ==
        Approx(linear_bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(deviation(nn::init::kaiming_normal(shape)) == Approx(std::sqrt(2.0 / 300)).epsilon(0.02));
  CHECK(largest(nn::init::xavier_uniform(shape)) == Approx(xavier_bound).epsilon(1e-3));
  CHECK(deviation(nn::init::xavier_uniform(shape)) ==
        Approx(xavier_bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(largest(nn::init::xavier_uniform(shape, 3)) == Approx(3 * xavier_bound).epsilon(1e-3));
  CHECK(largest(nn::init::kaiming_uniform(shape, 0)) == Approx(std::sqrt(6.0 / 300)).epsilon(1e-3));
  CHECK(min(nn::init::kaiming_uniform(shape)).item() == Approx(-linear_bound).epsilon(1e-3));
  CHECK(deviation(nn::init::kaiming_normal(shape, 1)) ==
        Approx(std::sqrt(1.0 / 300)).epsilon(0.02));
  // A convolution's fans include its kernel's area: fan_in 40 * 5 * 3, fan_out 60 * 5 * 3.
  CHECK(deviation(nn::init::kaiming_normal({60, 40, 5, 3})) ==
        Approx(std::sqrt(2.0 / 600)).epsilon(0.02));
  CHECK(largest(nn::init::xavier_uniform({60, 40, 5, 3})) ==
        Approx(std::sqrt(6.0 / 1500)).epsilon(1e-3));
  const Tensor flat = nn::init::uniform(shape, -1, 4);
  CHECK(min(flat).item() == Approx(-1).margin(1e-3));
  CHECK(max(flat).item() == Approx(4).margin(1e-3));
  CHECK(mean(flat).item() == Approx(1.5).margin(0.03));
  CHECK(deviation(nn::init::xavier_normal(shape, 2)) ==
        Approx(2 * std::sqrt(2.0 / 500)).epsilon(0.02));
  CHECK(largest(nn::init::uniform_fan_in({5000}, 300)) == Approx(linear_bound).epsilon(1e-2));
  CHECK(largest(nn::init::kaiming_uniform({8, 4, 3, 3})) ==
        Approx(1 / std::sqrt(36.0)).epsilon(0.05));
  const Tensor n = nn::init::normal(shape, 3, 0.5);
  CHECK(mean(n).item() == Approx(3).margin(0.01));
  CHECK(deviation(n) == Approx(0.5).epsilon(0.02));
  const Tensor cut =
      nn::init::trunc_normal(shape, 0, 1, -1, 2);  // mean (phi(-1) - phi(2)) / (Phi(2) - Phi(-1))
  CHECK(min(cut).item() >= -1);
  CHECK(max(cut).item() <= 2);
  CHECK(mean(cut).item() == Approx(0.2296).margin(0.01));
  // The variance is 1 - (phi(-1) + 2 phi(2)) / (Phi(2) - Phi(-1)) - mean^2.
  CHECK(var(cut, {}).item() == Approx(0.5196).margin(0.01));
  const Tensor moved = nn::init::trunc_normal(shape, 3, 2, 1, 7);  // the same times 2 plus 3
  CHECK(mean(moved).item() == Approx(3.4592).margin(0.02));
  CHECK(min(moved).item() == Approx(1).margin(0.01));
  CHECK(max(moved).item() == Approx(7).margin(0.01));
  // Far from the mean, in either tail: phi(9) / (1 - Phi(9)) = 9.1085 from it.
  const Tensor above = nn::init::trunc_normal(shape, 1, 2, 19, 30);
  CHECK(min(above).item() >= 19);
  CHECK(mean(above).item() == Approx(1 + 2 * 9.1085).margin(0.003));
  const Tensor below = nn::init::trunc_normal(shape, 1, 2, -28, -17);
  CHECK(max(below).item() <= -17);
  CHECK(mean(below).item() == Approx(1 - 2 * 9.1085).margin(0.003));
  CHECK_THROWS_WITH(nn::init::kaiming_uniform({3}), Contains("expected at least 2 axes"));
  CHECK_THROWS_WITH(nn::init::normal({3}, 0, -1), Contains("standard deviation >= 0"));
  CHECK_THROWS_WITH(nn::init::trunc_normal({3}, 0, 1, 2, -2), Contains("low < high"));
}

TEST_CASE("initialisers accept what is just valid, and refuse what is just not", "[nn]") {
  namespace init = nn::init;
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Shape shape{3};
  for (const Shape& empty : {Shape{0, 2}, Shape{2, 0}, Shape{2, 3, 0}})
    CHECK_THROWS_WITH(init::kaiming_uniform(empty),
                      Contains("expected at least 2 axes, none empty"));

  CHECK(max(abs(init::uniform(shape, -1.7e38, 1.7e38))).item() < INFINITY);
  CHECK(init::uniform(shape, 2, 2).to_vector<float>() == std::vector<float>(3, 2.0f));
  for (const auto& [low, high] :
       {std::pair{2.0, 1.0}, {0.0, infinity}, {-1.5e308, 1.5e308}, {-3e38, 3e38}, {1e39, 1e39}})
    CHECK_THROWS_WITH(
        init::uniform(shape, low, high),
        Contains("init::uniform: expected low <= high, both and their difference finite"));

  CHECK(init::normal(shape, 5, 0).to_vector<float>() == std::vector<float>(3, 5.0f));
  for (const auto& [mean, std] : {std::pair{0.0, infinity}, {infinity, 1.0}, {nan, 1.0}})
    CHECK_THROWS_WITH(init::normal(shape, mean, std),
                      Contains("init::normal: expected a finite mean"));

  const auto truncated = [&](double mean, double std, double low, double high) {
    CHECK_THROWS_WITH(
        init::trunc_normal(shape, mean, std, low, high),
        Contains("init::trunc_normal: expected finite values, std > 0 and low < high, "
                 "got mean "));
  };
  truncated(0, 0, -1, 1);
  truncated(0, infinity, -1, 1);
  truncated(nan, 1, -1, 1);
  truncated(0, 1, 2, 2);
  truncated(0, 1, -infinity, 1);
  truncated(0, 1, -1.5e308, 1.5e308);
  for (const auto& [low, high] : {std::pair{50.0, 60.0}, {-60.0, -50.0}})
    CHECK_THROWS_WITH(init::trunc_normal({8}, 0, 1, low, high),
                      Contains("init::trunc_normal: expected an interval within 36 std"));
  CHECK(max(init::trunc_normal({100}, 0, 1, 35, 60)).item() < 37);

  CHECK_THROWS_WITH(init::uniform_fan_in(shape, 0),
                    "init::uniform_fan_in: expected fan_in > 0, got 0");
}

TEST_CASE("trunc_normal: bounds far from the mean cut nothing off, however far", "[nn]") {
  manual_seed(6);
  const auto draw = [](double std, double low, double high) {
    return nn::init::trunc_normal({20000}, 0, std, low, high) * (1 / std);
  };
  for (const Tensor& x : {draw(1, -1e30, 1e30), draw(1e-20, -2, 2), draw(1, -1e300, 1.5)}) {
    CHECK(max(abs(x)).item() < 8);
    CHECK(median(x).item() == Approx(0).margin(0.12));
  }
  CHECK(var(draw(1e-20, -2, 2), {}).item() == Approx(1).margin(0.05));
  CHECK(max(draw(1, -1e300, 1.5)).item() <= 1.5);
  CHECK(max(abs(nn::init::trunc_normal({100}, 0, 1e-310))).item() == 0);
}

TEST_CASE("initialisers for param() draw what the functions of their names draw", "[nn]") {
  namespace init = nn::init;
  const Shape shape{6, 5};
  const auto drawn = [&](const nn::Initialiser& draw) {
    manual_seed(5);
    return draw(shape).to_vector<float>();
  };
  CHECK(drawn(init::uniform(-1, 3)) == drawn([](auto& s) { return init::uniform(s, -1, 3); }));
  CHECK(drawn(init::kaiming_normal()) == drawn([](auto& s) { return init::kaiming_normal(s, 0); }));
  CHECK(drawn(init::xavier_uniform()) == drawn([](auto& s) { return init::xavier_uniform(s, 1); }));
  CHECK(drawn(init::xavier_normal()) == drawn([](auto& s) { return init::xavier_normal(s, 1); }));
  const Tensor cut = init::trunc_normal({200, 300});  // from -2 to 2
  CHECK(min(cut).item() == Approx(-2).margin(0.01));
  CHECK(max(cut).item() == Approx(2).margin(0.01));
  CHECK(var(cut, {}).item() == Approx(0.7737).margin(0.01));  // 1 - 4 phi(2) / (2 Phi(2) - 1)
}

TEST_CASE("a convolution before a ReLU: variance 2 / fan_in, no bias", "[nn]") {
  manual_seed(4);
  nn::Conv2d conv(40, 60, {5, 3});
  CHECK(max(abs(conv.bias)).item() > 0);
  conv.initialise_for_relu();
  CHECK(std::sqrt(var(conv.weight, {}).item()) == Approx(std::sqrt(2.0 / 600)).epsilon(0.02));
  CHECK(max(abs(conv.bias)).item() == 0);
  CHECK(conv.weight.requires_grad());
}

}  // namespace init_test
