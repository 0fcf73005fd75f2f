// Values, edge cases and messages of commonly used ops. Expected values are computed by hand or
// come from PyTorch 1.13.1.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "gradus/core/core.h"

namespace common_ops_test {

using namespace gradus;
using namespace gradus::core;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

/// The gradient of the sum of f(x).
Doubles gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const Tensor leaf = x.detach().clone().requires_grad_();
  return grad({sum(f(leaf))}, {leaf})[0].to_vector<double>();
}

void check_same(const Doubles& got, const Doubles& expected, double tolerance = 1e-6) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(i << ": " << got[i] << ", expected " << expected[i]);
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    CHECK((same || std::abs(got[i] - expected[i]) <= tolerance * std::abs(expected[i])));
  }
}

}  // namespace

TEST_CASE("argmax and argmin: the first among equals, NaN wins, every dtype") {
  const Tensor x = tensor({{3, -1, 7}, {7, -1, 0}}, float64);
  CHECK(argmax(x).item<int64_t>() == 2);
  CHECK(argmin(x).item<int64_t>() == 1);
  CHECK(argmin(x.mT()).item<int64_t>() == 2);
  CHECK((argmax(x).shape() == Shape{} && argmax(x).dtype() == int64));
  CHECK(argmin(x, 0).to_vector<int64_t>() == Ints{0, 0, 1});
  CHECK(argmin(x, -1, keepdim).shape() == Shape{2, 1});
  CHECK(argmin(tensor({1, NaN, -inf, NaN})).item<int64_t>() == 1);
  CHECK(argmax(tensor({1, NaN, inf})).item<int64_t>() == 1);
  CHECK(argmin(tensor({{inf, inf}, {NaN, -inf}}), 1).to_vector<int64_t>() == Ints{0, 0});
  CHECK(argmin(from_data<int64_t>({5, INT64_MIN, INT64_MAX}, {3})).item<int64_t>() == 1);
  CHECK(argmax(from_data<int64_t>({5, INT64_MIN, INT64_MAX}, {3})).item<int64_t>() == 2);
  CHECK(argmax(tensor({0, 1, 1}, boolean)).item<int64_t>() == 1);
  CHECK(argmin(scalar(NaN)).item<int64_t>() == 0);
}

TEST_CASE("argsort: stable, NaN largest, every dtype") {
  CHECK(argsort(tensor({2, NaN, -inf, 2, inf})).to_vector<int64_t>() == Ints{2, 0, 3, 4, 1});
  CHECK(argsort(tensor({2, NaN, -inf, 2, inf}), 0, true).to_vector<int64_t>() ==
        Ints{1, 4, 0, 3, 2});
  CHECK(argsort(tensor({1, 0, 1}, boolean)).to_vector<int64_t>() == Ints{1, 0, 2});
  CHECK(argsort(tensor({{3, 1}, {2, 2}}, int64), 0).to_vector<int64_t>() == Ints{1, 0, 0, 1});
  CHECK(argsort(zeros({2, 0})).shape() == Shape{2, 0});
}

TEST_CASE("std_dev: one element, equal elements, values near float32's limit") {
  const auto deviation = [](const Tensor& x) { return std_dev(x); };
  CHECK(std::isnan(std_dev(scalar(1)).item()));
  CHECK(std::isnan(std_dev(tensor({1})).item()));
  CHECK(std_dev(tensor({1}), {}, 0).item() == 0);
  CHECK(std::isnan(std_dev(zeros({0})).item()));
  check_same(gradient(deviation, tensor({7, 7, 7})), {0, 0, 0});
  check_same(gradient(deviation, tensor({1})), {NaN});
  CHECK(std_dev(tensor({2e38, -2e38}), {}, 0).item() == Approx(2e38));
  check_same(gradient([](const Tensor& x) { return std_dev(x, {}, 0); }, tensor({2e38, -2e38})),
             {0.5, -0.5});
  CHECK(std_dev(full({3, 7}, 0.1, float64), 1).to_vector<double>() == Doubles(3));
  CHECK(std_dev(tensor({1e8 + 8, 1e8 - 8}), {}, 0).item() == 8);
  check_same(gradient(deviation, tensor({1, NaN, 2})), {NaN, NaN, NaN});
}

TEST_CASE("prod: zeros, infinities, and products that overflow on the way", "[fused]") {
  const auto product = [](const Tensor& x) { return prod(x); };
  check_same(gradient(product, tensor({3, 0, 2})), {0, 6, 0});
  check_same(gradient(product, tensor({3, 0, 0})), {0, 0, 0});
  check_same(gradient(product, tensor({0, inf})), {inf, 0});
  for (Dtype dtype : {float32, float64}) {
    const double large = dtype == float32 ? 1e37 : 1e300;
    const Tensor x = tensor({large, large, large, 0, large}, dtype);
    CHECK(prod(x).item() == 0);
    check_same(gradient(product, x), {0, 0, 0, inf, 0});
    const Tensor y = tensor({large, large, 1 / large, 2, 1 / large}, dtype);
    CHECK(prod(y).item() == Approx(2));
    check_same(gradient(product, y), {2 / large, 2 / large, 2 * large, 1, 2 * large});
  }
  const Tensor falling = cat({full({1000}, 10, float64), full({1000}, 0.1, float64)});
  CHECK(prod(falling).item() == Approx(1));
  CHECK(gradient(product, falling)[1500] == Approx(10));
  CHECK(std::isnan(prod(tensor({0, inf})).item()));
  CHECK(std::isnan(prod(tensor({NaN, 0})).item()));
  CHECK(std::signbit(prod(tensor({-0.0, 2})).item()));
  CHECK(prod(zeros({0})).item() == 1);
  CHECK(prod(zeros({2, 0}), 1).to_vector<double>() == Doubles{1, 1});
  CHECK(prod(scalar(3)).item() == 3);
  // The second derivative at a zero: d2 (a b c) / da dc = b, though the product is 0.
  const Tensor x = tensor({0, 5, 2}, float64).requires_grad_();
  const Tensor slope = grad({prod(x)}, {x}, {.create_graph = true})[0];
  CHECK(grad({slope[0]}, {x})[0].to_vector<double>() == Doubles{0, 2, 5});
}

TEST_CASE("prod of integers is exact up to the limits of int64") {
  CHECK(prod(from_data<int64_t>({INT64_MIN, 1, 1}, {3})).item<int64_t>() == INT64_MIN);
  CHECK(prod(from_data<int64_t>({1LL << 62, 2, -1}, {3})).item<int64_t>() == INT64_MIN);
  CHECK(prod(from_data<int64_t>({1LL << 62, 1LL << 62, 0}, {3})).item<int64_t>() == 0);
  CHECK_THROWS_AS(prod(from_data<int64_t>({INT64_MIN, -1}, {2})), Error);
  CHECK_THROWS_AS(prod(from_data<int64_t>({1LL << 62, 2}, {2})), Error);
  CHECK((prod(tensor({1, 1}, boolean)).dtype() == int64));
}

TEST_CASE("cumsum: long rows keep their precision, sums may leave float32's range and return") {
  const int64_t n = 1 << 22;
  const Tensor y = cumsum(full({n}, 0.1), 0);
  CHECK(y[n - 1].item() == Approx(static_cast<double>(0.1f) * n).epsilon(1e-6));
  check_same(cumsum(tensor({3e38, 3e38, -3e38}), 0).to_vector<double>(),
             {static_cast<float>(3e38), inf, static_cast<float>(3e38)});
  check_same(cumsum(tensor({1, inf, 2, -inf, 3}), 0).to_vector<double>(), {1, inf, inf, NaN, NaN});
  const Tensor big = from_data<int64_t>({INT64_MAX, -5, 5}, {3});
  CHECK(cumsum(big, 0).to_vector<int64_t>() == Ints{INT64_MAX, INT64_MAX - 5, INT64_MAX});
  CHECK_THROWS_AS(cumsum(from_data<int64_t>({INT64_MAX, 1, -1}, {3}), 0), Error);
  CHECK(cumsum(tensor({1, 0, 1}, boolean), 0).to_vector<int64_t>() == Ints{1, 1, 2});
  CHECK(cumsum(zeros({0, 3}), 0).shape() == Shape{0, 3});
  check_same(gradient([](const Tensor& x) { return cumsum(x, 0); }, zeros({3})), {3, 2, 1});
}

TEST_CASE("cumprod: zeros, infinities, products that leave float32's range and return, integers") {
  const Tensor x = tensor({1e30, 1e30, 1e-30, -1e-30});
  check_same(cumprod(x, 0).to_vector<double>(), {1e30, inf, 1e30, -1}, 1e-6);
  check_same(cumprod(tensor({2, 0, inf}, float64), 0).to_vector<double>(), {2, 0, NaN});
  check_same(cumprod(tensor({2, inf, 3}, float64), 0).to_vector<double>(), {2, inf, inf});
  check_same(cumprod(tensor({NaN, 0}, float64), 0).to_vector<double>(), {NaN, NaN});
  auto product = [](const Tensor& t) { return cumprod(t, 0); };
  // y = (2, 0, 0, 0): d(sum y)/dx = (1 + x1 + ..., 2 (1 + x2 + x2 x3), 0, 0)
  check_same(gradient(product, tensor({2, 0, 3, 4}, float64)), {1, 32, 0, 0});
  check_same(gradient(product, tensor({2, 0, 3, 0}, float64)), {1, 8, 0, 0});
  // A row's gradient depends on no other row.
  const Doubles rows =
      gradient([](const Tensor& t) { return cumprod(t, 1); }, tensor({{2, 3}, {NaN, 1}}, float64));
  check_same({rows[0], rows[1]}, {4, 2});
  CHECK(cumprod(tensor({-3, 2, 0, 5}, int64), 0).to_vector<int64_t>() == Ints{-3, -6, 0, 0});
  const Tensor truth = cumprod(tensor({{true, true, false}}), 1);
  CHECK(truth.dtype() == int64);
  CHECK(truth.to_vector<int64_t>() == Ints{1, 1, 0});
  const Tensor lowest = tensor({-0x1p62, 2, 1}, int64);
  CHECK(cumprod(lowest, 0)[2].item<int64_t>() == INT64_MIN);
  CHECK_THROWS_AS(cumprod(-lowest, 0), Error);
}

TEST_CASE("cumprod: gradients after a 0 where later products overflow", "[fused]") {
  const auto product = [](const Tensor& t) { return cumprod(t, 0); };
  check_same(gradient(product, tensor({0, 1e200, 1e200, 1e200}, float64)), {inf, 0, 0, 0});
}

TEST_CASE("tan, atan2 and lerp: quadrants, signs of 0, infinities, every magnitude") {
  constexpr double pi = std::numbers::pi;
  const Tensor y = tensor({1, 1, -1, -1, 0, -0.0, 0, inf, inf, 3, 0}, float64);
  const Tensor x = tensor({1, -1, -1, 1, -1, -1, 1, inf, -inf, 0, 0}, float64);
  check_same(atan2(y, x).to_vector<double>(),
             {pi / 4, 3 * pi / 4, -3 * pi / 4, -pi / 4, pi, -pi, 0, pi / 4, 3 * pi / 4, pi / 2, 0});
  const Tensor tiny = tensor({1e-40, -1e-40});  // flushed to 0 and -0
  check_same(atan2(tiny, abs(tiny)).to_vector<double>(), {0, 0});
  check_same(atan2(tiny * 0.0 + tiny, -abs(tiny)).to_vector<double>(), {pi, -pi}, 1e-6);
  check_same(gradient([](const Tensor& t) { return atan2(t, zeros_like(t)); }, tensor({0})), {0});
  check_same(gradient([](const Tensor& t) { return atan2(t, t * 2.0); }, tensor({3e38, 1e-37})),
             {0, 0});
  check_same(gradient([](const Tensor& t) { return atan2(t, full_like(t, 1e-37)); },
                      tensor({0, 1e-37, 3e38})),
             {1e37, 5e36, 0});
  check_same(gradient([](const Tensor& t) { return atan2(full_like(t, 2), t); },
                      tensor({inf, -inf, 2}, float64)),
             {0, 0, -0.25});
  check_same(gradient([](const Tensor& t) { return atan2(t, t); }, tensor({inf, 0})), {0, 0});
  check_same(tan(tensor({0, 1e30, inf, NaN})).to_vector<double>(),
             {0, std::tan(double{1e30f}), NaN, NaN});
  // Equal infinities stay, differences may leave the range, and the ends are exact.
  check_same(lerp(tensor({inf, -3e38, 1, 7}), tensor({inf, 3e38, 3, 7}), 0.5).to_vector<double>(),
             {inf, 0, 2, 7});
  check_same(lerp(tensor({0.1, NaN}), tensor({1e30, 1}), 0).to_vector<double>(),
             {double{0.1f}, NaN}, 0);
  check_same(lerp(tensor({1e30}), tensor({0.1}), 1).to_vector<double>(), {double{0.1f}}, 0);
  CHECK_THROWS_WITH(lerp(tensor({1}, int64), tensor({2}, int64), 0.5),
                    "lerp: expected float32 or float64, got int64");
  CHECK(square(tensor({-3, 4}, int64)).to_vector<int64_t>() == Ints{9, 16});
}

TEST_CASE("any and all: empty tensors, along axes") {
  const Tensor none = zeros({0, 2}, boolean), x = tensor({{1, 0, 1}, {1, 1, 1}}, boolean);
  CHECK(!any(none).item<bool>());
  CHECK(all(none).item<bool>());
  CHECK(all(none, 0).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(all(x, 1).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(any(logical_not(x), 0).to_vector<bool>() == std::vector<bool>{false, true, false});
  CHECK(any(x, keepdim).shape() == Shape{1, 1});
  CHECK(all(scalar(1, boolean)).item<bool>());
  CHECK(any(x.mT().slice(0, 1, 2)).item<bool>());
}

TEST_CASE("flip, roll, repeat and pad are copies, of every dtype") {
  for (Dtype dtype : {float32, int64, boolean}) {
    const Tensor x = tensor({{1, 0, 1}, {0, 0, 1}}, dtype);
    const Doubles before = x.to_vector<double>();
    for (const Tensor& y : {flip(x, {}), roll(x, 0, 0), roll(x, {}, {}), repeat(x, {1, 1}),
                            pad(x, {}), repeat(x.slice(1, 0, 1), {1, 2})})
      y.fill_(1);
    CHECK(x.to_vector<double>() == before);
    CHECK(flip(x, 1).to_vector<double>() == Doubles{1, 0, 1, 1, 0, 0});
    CHECK(roll(x, -1, 1).to_vector<double>() == Doubles{0, 1, 1, 0, 1, 0});
    CHECK(repeat(x.slice(0, 1), {2, 2}).to_vector<double>() ==
          Doubles{0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1});
    CHECK(pad(x, {1, 0, 0, 1}, 1).to_vector<double>() ==
          Doubles{1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1});
  }
  const Tensor ramp = arange(3);
  CHECK(roll(ramp, INT64_MIN, 0).to_vector<int64_t>() == Ints{2, 0, 1});  // -2^63 = 1 (mod 3)
  for (const int64_t shift : {INT64_MIN, INT64_MAX, int64_t{2}})
    CHECK(roll(zeros({0, 2}), shift, 0).shape() == Shape{0, 2});
  CHECK(repeat(scalar(2), {}).shape() == Shape{});
  CHECK(repeat(ones({1, 1, 1, 1, 1, 1, 1, 2}), {2, 1, 1, 1, 2, 1, 1, 2}).numel() == 16);
  CHECK(pad(scalar(2), {}).item() == 2);
  CHECK(flip(ramp.expand({2, 3}), {0, 1}).to_vector<int64_t>() == Ints{2, 1, 0, 2, 1, 0});
}

TEST_CASE("unbind: views; memory of a loop over them is linear in its length") {
  CHECK(unbind(zeros({0, 3})).empty());
  const Tensor x = zeros({2, 3});
  unbind(x, 1)[2].fill_(7);
  CHECK(x.to_vector<double>() == Doubles{0, 0, 7, 0, 0, 7});
  // The gradient's graph for a recurrence over n steps.
  auto bytes = [](int64_t n) {
    const Tensor steps = ones({n, 8}, float64).requires_grad_();
    Tensor h = zeros({8}, float64);
    for (const Tensor& step : unbind(steps)) h = tanh(h * 0.5 + step);
    const int64_t before = memory_stats().live;
    const Tensor slope = grad({sum(h)}, {steps}, {.create_graph = true})[0];
    const int64_t held = memory_stats().live - before;
    sum(slope * slope).backward();
    CHECK(steps.grad().shape() == Shape{n, 8});
    return held;
  };
  CHECK(bytes(2000) < 12 * bytes(200));
}

TEST_CASE("one_hot: the number of classes, dtypes") {
  const Tensor ids = tensor({2, 0}, int64);
  CHECK((one_hot(ids).shape() == Shape{2, 3} && one_hot(ids).dtype() == int64));
  CHECK(one_hot(ids, 4, float32).to_vector<double>() == Doubles{0, 0, 1, 0, 1, 0, 0, 0});
  CHECK(one_hot(ids[0]).to_vector<int64_t>() == Ints{0, 0, 1});
  CHECK(one_hot(zeros({0, 2}, int64), 3).shape() == Shape{0, 2, 3});
  CHECK(one_hot(zeros({2}, int64), 1).to_vector<int64_t>() == Ints{1, 1});
  CHECK(one_hot(zeros({2}, int64)).shape() == Shape{2, 1});
  CHECK(one_hot(zeros({0}, int64), 1).shape() == Shape{0, 1});
  CHECK_THROWS_WITH(one_hot(from_data<int64_t>({INT64_MAX}, {1})),
                    "one_hot: cannot infer the number of classes from id 9223372036854775807");
  CHECK_THROWS_WITH(one_hot(ids, 3, bfloat16),
                    "one_hot: expected float32, float64, int64 or bool, got bfloat16");
}

TEST_CASE("floor, ceil and round: halves, signs, values without a fraction") {
  const Tensor x = tensor({-1.5, -0.5, 0.5, 1.5, 2.5, 8388609, -3e38, inf, -inf, NaN});
  check_same(round(x).to_vector<double>(), {-2, -0.0, 0, 2, 2, 8388609, -3e38, inf, -inf, NaN});
  check_same(floor(x).to_vector<double>(), {-2, -1, 0, 1, 2, 8388609, -3e38, inf, -inf, NaN});
  check_same(ceil(x).to_vector<double>(), {-1, -0.0, 1, 2, 3, 8388609, -3e38, inf, -inf, NaN});
  CHECK(std::signbit(round(tensor({-0.5})).item()));
  CHECK(!round(ones({2}).requires_grad_()).requires_grad());
}

TEST_CASE("relu passes the gradient of a NaN, alone and gated") {
  check_same(gradient([](const Tensor& v) { return relu(v); }, tensor({NaN, -1, 0, 2})),
             {1, 0, 0, 1});
  check_same(
      gradient([](const Tensor& v) { return gated(v, Activation::relu); }, tensor({NaN, -1, 2, 3})),
      {2, 0, NaN, 0});
}

TEST_CASE("leaky_relu and elu at 0, far below 0 and at values that are not finite") {
  const Tensor x = tensor({-inf, -3e38, -1e-8, 0, 1e-8, inf, NaN});
  check_same(leaky_relu(x).to_vector<double>(), {-inf, -3e36, -1e-10, 0, 1e-8, inf, NaN});
  check_same(elu(x).to_vector<double>(), {-1, -1, -1e-8, 0, 1e-8, inf, NaN});
  const Tensor finite = tensor({-3e38, -1e-8, 0, 1e-8, 3e38});
  check_same(gradient([](const Tensor& v) { return leaky_relu(v); }, finite),
             {0.01, 0.01, 0.01, 1, 1});
  check_same(gradient([](const Tensor& v) { return elu(v, 2); }, finite), {0, 2, 2, 1, 1});
  // The second derivative is 0 above 0 and finite for any x.
  const Tensor leaf = tensor({-1, 3e38}).requires_grad_();
  const Tensor slope = grad({sum(elu(leaf))}, {leaf}, {.create_graph = true})[0];
  check_same(grad({sum(slope)}, {leaf})[0].to_vector<double>(), {std::exp(-1), 0});
}

TEST_CASE("normalize and cosine_similarity of the longest and the shortest vectors") {
  for (double size : {1e-300, 1e-160, 1e-30, 1.0, 1e30, 1e160, 1e308}) {
    for (Dtype dtype : {float32, float64}) {
      if (dtype == float32 && (size < 1e-37 || size > 1e37)) continue;
      INFO(size << " " << dtype);
      const Tensor x = tensor({0.3 * size, 0.4 * size}, dtype);
      const double tolerance = dtype == float32 ? 1e-6 : 1e-14;
      check_same(normalize(x, 0, 0).to_vector<double>(), {0.6, 0.8}, tolerance);
      CHECK(cosine_similarity(x, x * -1.0, 0, 0).item() == Approx(-1).epsilon(tolerance));
      const double unit = 2 / size;  // of the gradient: d y_0 = (0.64, -0.48) / |x|
      if (std::isfinite(unit) && unit < (dtype == float32 ? 1e38 : 1e308) && size < 1e307)
        check_same(gradient([](const Tensor& v) { return normalize(v, 0, 0)[0]; }, x),
                   {0.64 * unit, -0.48 * unit}, tolerance);
    }
  }
  // Three of the largest values: their norm overflows float32.
  check_same(normalize(tensor({3e38, 3e38, 3e38}), 0).to_vector<double>(),
             Doubles(3, 1 / std::sqrt(3.0)));
  check_same(normalize(tensor({{1, NaN}, {3, 4}, {0, 0}, {inf, 1}})).to_vector<double>(),
             {NaN, NaN, 0.6, 0.8, 0, 0, NaN, 0});
  check_same(gradient([](const Tensor& v) { return normalize(v, 0); }, zeros({2})), {1e12, 1e12});
  CHECK(cosine_similarity(zeros({3}), ones({3}), 0).item() == 0);
  for (const Dtype dtype : {float32, float64}) {  // an eps that kernels flush to 0
    const double eps = dtype == float32 ? 1e-40 : 1e-310;
    const Tensor none = zeros({1, 2}, dtype), one = ones({2}, dtype);
    check_same(normalize(none, 1, eps).to_vector<double>(), {0, 0});
    CHECK(cosine_similarity(none, one, 1, eps).item() == 0);
    check_same(
        batch_norm_by(zeros({2}, dtype), zeros({2}, dtype), none, one, {}, eps).to_vector<double>(),
        {0, 0});
  }
  CHECK(cosine_similarity(zeros({2, 0}), zeros({2, 0})).to_vector<double>() == Doubles{0, 0});
}

}  // namespace common_ops_test
