// The elementary functions of the kernels against double precision: error bounds over all
// exponents, special values, and the double overloads.

#include "gradus/core/kernels/math.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gradus/core/runtime/parallel.h"

namespace math_test {

using namespace gradus;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float smallest = std::numeric_limits<float>::min();
constexpr float largest = std::numeric_limits<float>::max();

/// Random normal floats with |x| <= limit: per exponent and sign 192, or 4096 where functions bend.
std::vector<float> sweep(float limit = largest) {
  std::mt19937 random(1);
  std::vector<float> x;
  for (uint32_t exponent = 1; exponent < 255; ++exponent) {
    const int count = exponent >= 127 - 12 && exponent <= 127 + 7 ? 4096 : 192;
    for (int i = 0; i < 2 * count; ++i) {
      const uint32_t sign = static_cast<uint32_t>(i & 1) << 31, mantissa = random() >> 9;
      const float v = std::bit_cast<float>(sign | exponent << 23 | mantissa);
      if (std::fabs(v) <= limit) x.push_back(v);
    }
  }
  return x;
}

/// f applied to x as in kernels: in a vector loop, with denormals flushed.
template <class F>
std::vector<float> evaluate(const std::vector<float>& x, F f) {
  std::vector<float> y(x.size());
  FlushDenormals flush;
  const float* in = x.data();
  float* out = y.data();
  simd_for(static_cast<int64_t>(x.size()), [&](int64_t i) { out[i] = f(in[i]); });
  return y;
}

/// |got - want| in units in the last place of want; 0 if both overflow or underflow.
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : inf;
  if (std::fabs(want) < smallest) return std::fabs(got) <= smallest ? 0 : inf;
  if (std::isinf(static_cast<float>(want)) && got == static_cast<float>(want)) return 0;
  int exponent;
  std::frexp(std::min(std::fabs(want), static_cast<double>(largest)), &exponent);
  const double error = std::fabs(got - want) * std::ldexp(1.0, 24 - exponent);
  return std::isnan(error) ? inf : error;
}

/// The maximum of error(x, f(x), truth(x)) over x.
template <class F, class Truth, class Error>
double worst(const std::vector<float>& x, F f, Truth truth, Error error) {
  const std::vector<float> y = evaluate(x, f);
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i)
    most = std::max(most, error(x[i], y[i], truth(static_cast<double>(x[i]))));
  return most;
}
/// |got - want| in units of 2^-24, relative to |x| where |x| > 1: GELU's scale.
double gelu_error(float x, float got, double want) {
  const double error = std::fabs(got - want) / std::max(1.0, std::fabs(double{x})) * 0x1p24;
  return std::isnan(error) ? inf : error;
}

double bound(double with_fma) { return with_fma + (kernel::detail::has_fma ? 0 : 0.3); }

/// f(x), evaluated as a whole vector of x.
template <class F>
float at(float x, F f) {
  return evaluate(std::vector<float>(16, x), f)[0];
}

/// Whether f is NaN at NaN of either sign, with and without a payload.
template <class F>
bool nan_at_nan(F f) {
  const float payload = std::bit_cast<float>(0x7fc00155u);
  return std::isnan(at(quiet_nan, f)) && std::isnan(at(-quiet_nan, f)) &&
         std::isnan(at(payload, f));
}

}  // namespace

TEST_CASE("elementary functions stay within their error bounds", "[kernel][math]") {
  const std::vector<float> all = sweep(), moderate = sweep(1e5f);
  // Compares the float overloads with the double ones, which equal std's (tested below).
  auto error = [](const std::vector<float>& x, auto f) {
    return worst(x, f, f, [](float, float got, double want) { return ulps(got, want); });
  };
  CHECK(error(all, [](auto x) { return kernel::exp(x); }) <= bound(1));
  CHECK(error(all, [](auto x) { return kernel::log(x); }) <= bound(1));
  CHECK(error(all, [](auto x) { return kernel::log1p(x); }) <= bound(2));
  CHECK(error(all, [](auto x) { return kernel::expm1(x); }) <= bound(2));
  CHECK(error(all, [](auto x) { return kernel::tanh(x); }) <= bound(2));
  CHECK(error(all, [](auto x) { return kernel::erf(x); }) <= bound(3));
  CHECK(error(all, [](auto x) { return kernel::sigmoid(x); }) <= bound(3));
  CHECK(error(all, [](auto x) { return kernel::softplus(x); }) <= bound(3));
  CHECK(error(moderate, [](auto x) { return kernel::sin(x); }) <= bound(2));
  CHECK(error(moderate, [](auto x) { return kernel::cos(x); }) <= bound(2));
}

TEST_CASE("GELU and its slope stay within their error bounds", "[kernel][math]") {
  const std::vector<float> x = sweep(1e15f);
  auto error = [&](auto f) { return worst(x, f, f, gelu_error); };
  CHECK(error([](auto v) { return kernel::gelu_with_slope(v).value; }) <= 2);
  CHECK(error([](auto v) { return kernel::gelu_with_slope(v).slope; }) <= 3);
  CHECK(error([](auto v) { return kernel::gelu_tanh_with_slope(v).value; }) <= 3);
  CHECK(error([](auto v) { return kernel::gelu_tanh_with_slope(v).slope; }) <= 4);
}

TEST_CASE("exponentials and logarithms at special values", "[kernel][math]") {
  auto exp = [](float x) { return kernel::exp(x); };
  auto log = [](float x) { return kernel::log(x); };
  auto log1p = [](float x) { return kernel::log1p(x); };
  auto expm1 = [](float x) { return kernel::expm1(x); };

  CHECK(at(0, exp) == 1);
  CHECK(at(inf, exp) == inf);
  CHECK(at(89, exp) == inf);
  CHECK(at(-inf, exp) == 0);
  CHECK(at(-largest, exp) == 0);
  CHECK(at(-87.3f, exp) >= smallest);
  CHECK(at(1, log) == 0);
  CHECK(at(0, log) == -inf);
  CHECK(at(-0.0f, log) == -inf);
  CHECK(at(inf, log) == inf);
  CHECK(std::isnan(at(-1, log)));
  CHECK(std::isnan(at(-inf, log)));
  CHECK(at(inf, log1p) == inf);
  CHECK(at(-1, log1p) == -inf);
  CHECK(std::isnan(at(-1.0001f, log1p)));
  CHECK(std::isnan(at(-inf, log1p)));
  CHECK(at(inf, expm1) == inf);
  CHECK(at(89, expm1) == inf);
  CHECK(at(88.7f, expm1) < inf);
  CHECK(at(-inf, expm1) == -1);
  CHECK(at(-largest, expm1) == -1);
  CHECK(at(smallest, log1p) == smallest);
  CHECK(at(-smallest, expm1) == -smallest);
  CHECK(std::signbit(at(-0.0f, log1p)));
  CHECK(std::signbit(at(-0.0f, expm1)));
  CHECK((nan_at_nan(exp) && nan_at_nan(log) && nan_at_nan(log1p) && nan_at_nan(expm1)));
}

TEST_CASE("elementary functions at the exact bounds between their branches", "[kernel][math]") {
  auto exp = [](auto x) { return kernel::exp(x); };
  auto log = [](auto x) { return kernel::log(x); };
  auto tanh = [](auto x) { return kernel::tanh(x); };
  auto error = [](float x, auto f) { return ulps(at(x, f), f(static_cast<double>(x))); };

  const float least = -0x1.5d589ep+6f, most = 0x1.62e42ep+6f;
  CHECK(at(least, exp) > smallest);  // the last that is not denormal
  CHECK(error(least, exp) <= bound(1));
  CHECK(at(std::nextafter(least, -inf), exp) == 0);
  CHECK(at(most, exp) < inf);  // the last that does not overflow
  CHECK(error(most, exp) <= bound(1));
  CHECK(at(std::nextafter(most, inf), exp) == inf);
  CHECK(error(smallest, log) <= bound(1));
  for (const float x : {0.3f, -0.3f}) CHECK(error(x, tanh) <= bound(2));  // from here, by exp
}

TEST_CASE("tanh, erf, sigmoid, softplus, sin and cos at special values", "[kernel][math]") {
  auto tanh = [](float x) { return kernel::tanh(x); };
  auto erf = [](float x) { return kernel::erf(x); };
  auto sigmoid = [](float x) { return kernel::sigmoid(x); };
  auto softplus = [](float x) { return kernel::softplus(x); };
  auto sin = [](float x) { return kernel::sin(x); };
  auto cos = [](float x) { return kernel::cos(x); };

  for (float sign : {1.0f, -1.0f}) {
    CHECK(at(sign * inf, tanh) == sign);
    CHECK(at(sign * inf, erf) == sign);
    CHECK(at(sign * largest, tanh) == sign);
    CHECK(at(sign * largest, erf) == sign);
    CHECK(std::signbit(at(sign * 0.0f, tanh)) == (sign < 0));
    CHECK(std::signbit(at(sign * 0.0f, erf)) == (sign < 0));
    CHECK(std::isnan(at(sign * inf, sin)));
    CHECK(std::isnan(at(sign * inf, cos)));
  }
  CHECK(at(0, sigmoid) == 0.5f);
  CHECK(at(inf, sigmoid) == 1);
  CHECK(at(-inf, sigmoid) == 0);
  CHECK(at(inf, softplus) == inf);
  CHECK(at(-inf, softplus) == 0);
  CHECK(at(0, sin) == 0);
  CHECK(at(0, cos) == 1);
  CHECK((nan_at_nan(tanh) && nan_at_nan(erf)));
  CHECK((nan_at_nan(sigmoid) && nan_at_nan(softplus) && nan_at_nan(sin) && nan_at_nan(cos)));
}

TEST_CASE("GELU and its slope at special values", "[kernel][math]") {
  auto gelu_like = [](auto value, auto slope) {
    CHECK((nan_at_nan(value) && nan_at_nan(slope)));
    CHECK(at(inf, value) == inf);
    CHECK(at(-inf, value) == 0);
    CHECK(at(-100, value) == 0);
    CHECK(at(100, value) == 100);
    CHECK(at(inf, slope) == 1);
    CHECK(at(-inf, slope) == 0);
    CHECK(at(-100, slope) == 0);
  };
  gelu_like([](float x) { return kernel::gelu_with_slope(x).value; },
            [](float x) { return kernel::gelu_with_slope(x).slope; });
  gelu_like([](float x) { return kernel::gelu_tanh_with_slope(x).value; },
            [](float x) { return kernel::gelu_tanh_with_slope(x).slope; });
}

TEST_CASE("GELU and its slope far left: negative, and of the true magnitude", "[kernel][math]") {
  auto ratios = [](auto f, float least, double most_off) {
    for (float x = -4; x > least; x -= 0.125f) {
      INFO(x);
      const double ratio = at(x, f) / f(static_cast<double>(x));
      CHECK(ratio > 1 / most_off);
      CHECK(ratio < most_off);
    }
  };
  ratios([](auto x) { return kernel::gelu_with_slope(x).value; }, -12.8f, 2.5);
  ratios([](auto x) { return kernel::gelu_with_slope(x).slope; }, -13.1f, 1.01);
  ratios([](auto x) { return kernel::gelu_tanh_with_slope(x).value; }, -9.9f, 1.001);
  ratios([](auto x) { return kernel::gelu_tanh_with_slope(x).slope; }, -9.9f, 1.001);
}

TEST_CASE("GELU and its slope in double precision at infinities", "[kernel][math]") {
  for (auto f : {+[](double x) { return kernel::gelu_with_slope(x); },
                 +[](double x) { return kernel::gelu_tanh_with_slope(x); }}) {
    const double far = std::numeric_limits<double>::infinity();
    CHECK(f(far).value == far);
    CHECK(f(far).slope == 1);
    CHECK(f(-far).value == 0);
    CHECK(f(-far).slope == 0);
    CHECK(std::isnan(f(std::nan("")).value));
    CHECK(std::isnan(f(std::nan("")).slope));
  }
}

TEST_CASE("the kernels' double overloads equal the standard library's functions",
          "[kernel][math]") {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(-20, 20);
  for (int i = 0; i < 1000; ++i) {
    const double x = uniform(random), a = std::fabs(x);
    REQUIRE(kernel::exp(x) == std::exp(x));
    REQUIRE(kernel::log(a) == std::log(a));
    REQUIRE(kernel::log1p(a) == std::log1p(a));
    REQUIRE(kernel::expm1(x) == std::expm1(x));
    REQUIRE(kernel::tanh(x) == std::tanh(x));
    REQUIRE(kernel::erf(x) == std::erf(x));
    REQUIRE(kernel::sin(x) == std::sin(x));
    REQUIRE(kernel::cos(x) == std::cos(x));
    REQUIRE(kernel::sigmoid(x) == 1 / (1 + std::exp(-x)));
    REQUIRE(kernel::softplus(x) == std::fmax(x, 0.0) + std::log1p(std::exp(-a)));

    // GELU equals the papers' formulas, and its slope equals central differences.
    const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), h = 1e-5;
    auto slope = [&](auto f) { return Approx((f(x + h) - f(x - h)) / (2 * h)).margin(1e-8); };
    REQUIRE(kernel::gelu_with_slope(x).value ==
            Approx(0.5 * x * (1 + std::erf(x * M_SQRT1_2))).margin(1e-13));
    REQUIRE(kernel::gelu_tanh_with_slope(x).value ==
            Approx(0.5 * x * (1 + std::tanh(u))).margin(1e-13));
    REQUIRE(kernel::gelu_with_slope(x).slope ==
            slope([](double v) { return kernel::gelu_with_slope(v).value; }));
    REQUIRE(kernel::gelu_tanh_with_slope(x).slope ==
            slope([](double v) { return kernel::gelu_tanh_with_slope(v).value; }));
  }
}

}  // namespace math_test
