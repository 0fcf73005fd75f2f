#include "gradus/nn/init.h"

#include <numbers>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::nn::init {

namespace {
struct Fans {
  double in, out;
};

Fans fans(const char* op, const Shape& shape) {
  check(shape.size() >= 2 && checked_numel(op, shape) > 0, op,
        ": expected at least 2 axes, none empty, got ", shape);
  const double field = static_cast<double>(shape.numel() / (shape[0] * shape[1]));
  return {static_cast<double>(shape[1]) * field, static_cast<double>(shape[0]) * field};
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// Returns the x in [low, high] with normal_cdf(x) = p, found by 64 bisections.
double inverse_normal_cdf(double p, double low, double high) {
  for (int i = 0; i < 64; ++i) {
    const double middle = 0.5 * (low + high);
    if (normal_cdf(middle) < p)
      low = middle;
    else
      high = middle;
  }
  return 0.5 * (low + high);
}
}  // namespace

Tensor uniform(const Shape& shape, double low, double high) {
  const auto fits = [](double x) { return std::isfinite(static_cast<float>(x)); };
  check(low <= high && fits(low) && fits(high) && fits(high - low), "init::uniform: expected low ",
        "<= high, both and their difference finite in float32, got ", low, " and ", high);
  NoGrad no_grad;
  Tensor x = rand(shape);
  return x.mul_(high - low).add_(scalar(low));
}

Tensor normal(const Shape& shape, double mean, double std) {
  check(std >= 0 && std::isfinite(std) && std::isfinite(mean),
        "init::normal: expected a finite mean and standard deviation >= 0, got ", mean, " and ",
        std);
  NoGrad no_grad;
  Tensor x = randn(shape);
  x.mul_(std);
  return mean == 0 ? x : x.add_(scalar(mean));
}

Tensor trunc_normal(const Shape& shape, double mean, double std, double low, double high) {
  check(std > 0 && low < high && std::isfinite(high - low) && std::isfinite(mean) &&
            std::isfinite(std),
        "init::trunc_normal: expected finite values, std > 0 and low < high, got mean ", mean,
        ", std ", std, ", low ", low, ", high ", high);
  // All draws are within 1e6 std of the mean; in a wider interval, bisection would be too coarse.
  const double a = std::clamp((low - mean) / std, -1e6, 1e6),
               b = std::clamp((high - mean) / std, -1e6, 1e6);
  // In the upper tail the distribution function rounds to 1: draw from the lower tail and negate.
  const double sign = a > 0 ? -1 : 1, lower = a > 0 ? -b : a, upper = a > 0 ? -a : b;
  const double from = normal_cdf(lower), to = normal_cdf(upper);
  check(to > 1e-290, "init::trunc_normal: expected an interval within 36 std of the mean ", mean,
        ", got std ", std, ", low ", low, ", high ", high);
  Tensor u = rand(shape, float64), x = empty(shape);
  const double* up = u.data<double>();
  float* xp = x.data<float>();
  parallel_for_each(x.numel(), 1024, [&](int64_t i) {
    const double z = inverse_normal_cdf(from + (to - from) * up[i], lower, upper);
    xp[i] = static_cast<float>(mean + sign * std * z);
  });
  return x;
}

Tensor kaiming_uniform(const Shape& shape, double a) {
  const double bound = std::sqrt(6 / ((1 + a * a) * fans("init::kaiming_uniform", shape).in));
  return uniform(shape, -bound, bound);
}

Tensor kaiming_normal(const Shape& shape, double a) {
  return normal(shape, 0, std::sqrt(2 / ((1 + a * a) * fans("init::kaiming_normal", shape).in)));
}

Tensor xavier_uniform(const Shape& shape, double gain) {
  const Fans fan = fans("init::xavier_uniform", shape);
  const double bound = gain * std::sqrt(6 / (fan.in + fan.out));
  return uniform(shape, -bound, bound);
}

Tensor xavier_normal(const Shape& shape, double gain) {
  const Fans fan = fans("init::xavier_normal", shape);
  return normal(shape, 0, gain * std::sqrt(2 / (fan.in + fan.out)));
}

Tensor uniform_fan_in(const Shape& shape, int64_t fan_in) {
  check(fan_in > 0, "init::uniform_fan_in: expected fan_in > 0, got ", fan_in);
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform(shape, -bound, bound);
}

// ---- for param() ----

Initialiser uniform(double low, double high) {
  return [=](const Shape& shape) { return uniform(shape, low, high); };
}
Initialiser normal() {
  return [](const Shape& shape) { return normal(shape); };
}
Initialiser kaiming_uniform() {
  return [](const Shape& shape) { return kaiming_uniform(shape); };
}
Initialiser kaiming_normal() {
  return [](const Shape& shape) { return kaiming_normal(shape); };
}
Initialiser xavier_uniform() {
  return [](const Shape& shape) { return xavier_uniform(shape); };
}
Initialiser xavier_normal() {
  return [](const Shape& shape) { return xavier_normal(shape); };
}
Initialiser uniform_fan_in(int64_t fan_in) {
  return [=](const Shape& shape) { return uniform_fan_in(shape, fan_in); };
}

}  // namespace gradus::nn::init
