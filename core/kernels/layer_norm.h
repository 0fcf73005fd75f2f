#pragma once
// Layer norm of rows, with the mean taken off or (RMS norm) not, and its gradient.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "gradus/core/parallel.h"

namespace gradus::kernel {

/// The mean and variance (divisor n) of n numbers, or of `pieces` times n, each piece `step` after
/// the last. Both are corrected by the sum of x - mean, which rounding leaves over: Chan, Golub,
/// LeVeque 1983, "Algorithms for Computing the Sample Variance". Variances below about 1e-30 and
/// below eps may be rounded to 0. Unless `centred`, 0 stands for the mean.
template <class T>
std::pair<double, double> mean_and_variance(const T* x, int64_t n, double eps, bool centred,
                                            int64_t pieces = 1, int64_t step = 0) {
  const auto count = static_cast<double>(n * pieces);
  auto mean_of = [=](auto f) {
    using S = decltype(f(*x));
    double total = 0;
    for (int64_t p = 0; p < pieces; ++p)
      total += blocked_sum<S>(n, [=, from = x + p * step](int64_t j) { return f(from[j]); });
    return total / count;
  };
  auto statistics = [&](auto zero) {
    using S = decltype(zero);
    auto mean_square = [&](S first) {
      return mean_of([=](T v) {
        const S d = static_cast<S>(v) - first;
        return d * d;
      });
    };
    if (!centred) return std::pair{0.0, mean_square(zero)};
    const S first = static_cast<S>(mean_of([](T v) { return static_cast<S>(v); }));
    const double rest = mean_of([=](T v) { return static_cast<S>(v) - first; });
    const double var = std::max(mean_square(first) - rest * rest, 0.0);
    return std::pair{static_cast<double>(first) + rest, var};
  };
  const auto found = statistics(T{});
  // T's range was left, upwards or where eps does not hide it, or there is what is not finite.
  if (!std::isfinite(found.second) || std::max(found.second, eps) < 1e-30)
    return statistics(double{});
  return found;
}

/// y = (x - mean) rstd weight + bias with rstd = 1/sqrt(var + eps), for a row of n; weight and bias
/// may be null. Mean and rstd are kept for the gradient.
template <class T>
void layer_norm_row(const T* x, const T* weight, const T* bias, int64_t n, double eps, bool centred,
                    T* y, T* mean_out, T* rstd_out) {
  const auto moments = mean_and_variance(x, n, eps, centred);
  const T mean = static_cast<T>(moments.first);
  const T rstd = static_cast<T>(1 / std::sqrt(moments.second + eps));
  if (weight && bias)
    simd_for(n, [=](int64_t j) { y[j] = (x[j] - mean) * rstd * weight[j] + bias[j]; });
  else if (weight)
    simd_for(n, [=](int64_t j) { y[j] = (x[j] - mean) * rstd * weight[j]; });
  else if (bias)
    simd_for(n, [=](int64_t j) { y[j] = (x[j] - mean) * rstd + bias[j]; });
  else
    simd_for(n, [=](int64_t j) { y[j] = (x[j] - mean) * rstd; });
  *mean_out = mean;
  *rstd_out = rstd;
}

/// With xhat = (x - mean) rstd and g = dy weight:
///   dx = rstd (g - mean(g) - xhat mean(g xhat))    dweight += dy xhat    dbias += dy
/// for a row of n; unless `centred`, without mean(g). dx, dweight, dbias may be null: not wanted.
/// With `accumulate` dx is added to what stands there. dx may be dy.
template <class T>
void layer_norm_backward_row(const T* dy, const T* x, const T* weight, T mean, T rstd, int64_t n,
                             bool centred, bool accumulate, T* dx, T* dweight, T* dbias) {
  auto xhat = [=](int64_t j) { return (x[j] - mean) * rstd; };
  if (dweight) simd_for(n, [=](int64_t j) { dweight[j] += dy[j] * xhat(j); });
  if (dbias) simd_for(n, [=](int64_t j) { dbias[j] += dy[j]; });
  if (!dx) return;
  auto finish = [&](auto g) {
    const auto count = static_cast<double>(n);
    const T a = centred ? static_cast<T>(blocked_sum<T>(n, g) / count) : T{0};
    const T b =
        static_cast<T>(blocked_sum<T>(n, [=](int64_t j) { return g(j) * xhat(j); }) / count);
    if (accumulate)
      simd_for(n, [=](int64_t j) { dx[j] += rstd * (g(j) - a - xhat(j) * b); });
    else
      simd_for(n, [=](int64_t j) { dx[j] = rstd * (g(j) - a - xhat(j) * b); });
  };
  if (weight)
    finish([=](int64_t j) { return dy[j] * weight[j]; });
  else
    finish([=](int64_t j) { return dy[j]; });
}

}  // namespace gradus::kernel
