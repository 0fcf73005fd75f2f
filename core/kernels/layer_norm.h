#pragma once
// Layer norm of rows, and its gradient.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "gradus/core/parallel.h"

namespace gradus::kernel {

/// The mean of a row of n and 1/sqrt(var + eps). Both are corrected by the sum of x - mean, which
/// rounding leaves over: Chan, Golub, LeVeque 1983, "Algorithms for Computing the Sample Variance".
template <class T>
std::pair<T, T> layer_norm_statistics(const T* x, int64_t n, double eps) {
  const auto count = static_cast<double>(n);
  auto statistics = [&](auto type) {
    using S = decltype(type);
    const S first =
        static_cast<S>(blocked_sum<S>(n, [=](int64_t j) { return static_cast<S>(x[j]); }) / count);
    auto centred = [=](int64_t j) { return static_cast<S>(x[j]) - first; };
    const double rest = blocked_sum<S>(n, centred) / count;
    const double squares =
        blocked_sum<S>(n, [=](int64_t j) { return centred(j) * centred(j); }) / count;
    const double var = std::max(squares - rest * rest, 0.0);
    return std::pair{static_cast<double>(first) + rest, var};
  };
  auto [mean, var] = statistics(T{});
  if (!std::isfinite(var)) std::tie(mean, var) = statistics(double{});  // or T's range was left
  return {static_cast<T>(mean), static_cast<T>(1 / std::sqrt(var + eps))};
}

/// y = (x - mean) rstd weight + bias with rstd = 1/sqrt(var + eps), for a row of n; weight and bias
/// may be null. Mean and rstd are kept for the gradient.
template <class T>
void layer_norm_row(const T* x, const T* weight, const T* bias, int64_t n, double eps, T* y,
                    T* mean_out, T* rstd_out) {
  T mean, rstd;
  std::tie(mean, rstd) = layer_norm_statistics(x, n, eps);
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
/// for a row of n. dx, dweight, dbias may be null: not wanted. With `accumulate` dx is added to
/// what stands there. dx may be dy.
template <class T>
void layer_norm_backward_row(const T* dy, const T* x, const T* weight, T mean, T rstd, int64_t n,
                             bool accumulate, T* dx, T* dweight, T* dbias) {
  auto xhat = [=](int64_t j) { return (x[j] - mean) * rstd; };
  if (dweight) simd_for(n, [=](int64_t j) { dweight[j] += dy[j] * xhat(j); });
  if (dbias) simd_for(n, [=](int64_t j) { dbias[j] += dy[j]; });
  if (!dx) return;
  auto finish = [&](auto g) {
    const auto count = static_cast<double>(n);
    const T a = static_cast<T>(blocked_sum<T>(n, g) / count);
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
