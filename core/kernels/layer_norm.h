#pragma once
// Layer norm of rows, and its gradient.

#include <cmath>
#include <cstdint>

#include "gradus/core/parallel.h"

namespace gradus::kernel {

/// y = (x - mean) rstd weight + bias with rstd = 1/sqrt(var + eps), for a row of n; weight and bias
/// may be null. Mean and rstd are kept for the gradient.
template <class T>
void layer_norm_row(const T* x, const T* weight, const T* bias, int64_t n, T eps, T* y, T* mean_out,
                    T* rstd_out) {
  const T mean = simd_sum<T>(n, [=](int64_t j) { return x[j]; }) / static_cast<T>(n);
  const T var =
      simd_sum<T>(n, [=](int64_t j) { return (x[j] - mean) * (x[j] - mean); }) / static_cast<T>(n);
  const T rstd = 1 / std::sqrt(var + eps);
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
    const T a = simd_sum<T>(n, g) / static_cast<T>(n);
    const T b = simd_sum<T>(n, [=](int64_t j) { return g(j) * xhat(j); }) / static_cast<T>(n);
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
