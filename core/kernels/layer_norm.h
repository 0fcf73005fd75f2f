#pragma once
// Layer norm of rows, with the mean taken off or (RMS norm) not, and its gradient.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "gradus/core/parallel.h"

namespace gradus::kernel {

/// The mean of a row of n and 1/sqrt(var + eps). Both are corrected by the sum of x - mean, which
/// rounding leaves over: Chan, Golub, LeVeque 1983, "Algorithms for Computing the Sample Variance".
/// Unless `centred`, 0 stands for the mean.
template <class T>
std::pair<T, T> layer_norm_statistics(const T* x, int64_t n, double eps, bool centred) {
  const auto count = static_cast<double>(n);
  auto mean_square = [&](auto first) {
    using S = decltype(first);
    auto square = [=](int64_t j) {
      const S d = static_cast<S>(x[j]) - first;
      return d * d;
    };
    return static_cast<double>(blocked_sum<S>(n, square)) / count;
  };
  auto statistics = [&](auto zero) {
    using S = decltype(zero);
    if (!centred) return std::pair{0.0, mean_square(zero)};
    const S first =
        static_cast<S>(blocked_sum<S>(n, [=](int64_t j) { return static_cast<S>(x[j]); }) / count);
    auto distance = [=](int64_t j) { return static_cast<S>(x[j]) - first; };
    const double rest = blocked_sum<S>(n, distance) / count;
    const double var = std::max(mean_square(first) - rest * rest, 0.0);
    return std::pair{static_cast<double>(first) + rest, var};
  };
  auto [mean, var] = statistics(T{});
  // T's range was left, upwards or where eps does not hide it, or the row holds what is not finite.
  if (!std::isfinite(var) || std::max(var, eps) < 1e-30) std::tie(mean, var) = statistics(double{});
  return {static_cast<T>(mean), static_cast<T>(1 / std::sqrt(var + eps))};
}

/// y = (x - mean) rstd weight + bias with rstd = 1/sqrt(var + eps), for a row of n; weight and bias
/// may be null. Mean and rstd are kept for the gradient.
template <class T>
void layer_norm_row(const T* x, const T* weight, const T* bias, int64_t n, double eps, bool centred,
                    T* y, T* mean_out, T* rstd_out) {
  T mean, rstd;
  std::tie(mean, rstd) = layer_norm_statistics(x, n, eps, centred);
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
