#pragma once
// Layer norm of rows, with the mean taken off or (RMS norm) not, and its gradient.

#include <algorithm>
#include <cmath>

#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// The mean and variance (divisor n) of n numbers, or of `pieces` times n, each piece `step` after
/// the last. Both are corrected by the sum of x - mean, which rounding leaves over: Chan, Golub,
/// LeVeque 1983, "Algorithms for Computing the Sample Variance". Variances below about 1e-30 and
/// below eps may be rounded to 0. Unless `centred`, 0 stands for the mean.
template <class T>
std::pair<double, double> mean_and_variance(const T* x, int64_t n, double eps, bool centred,
                                            int64_t pieces = 1, int64_t step = 0) {
  const auto count = static_cast<double>(n * pieces);
  // the means of both numbers of f
  auto means_of = [=](auto zero, auto f) {
    std::pair<double, double> total;
    for (int64_t p = 0; p < pieces; ++p) {
      const auto sums = blocked_sums<decltype(zero)>(n, [=, from = x + p * step](int64_t j) {
        return f(static_cast<decltype(zero)>(from[j]));
      });
      total.first += sums.first, total.second += sums.second;
    }
    return std::pair{total.first / count, total.second / count};
  };
  auto statistics = [&](auto zero) {
    using S = decltype(zero);
    const S first = centred ? static_cast<S>(means_of(zero,
                                                      [](S v) {
                                                        return std::pair{v, S{0}};
                                                      })
                                                 .first)
                            : S{0};
    const auto [rest, square] = means_of(zero, [=](S v) {
      return std::pair{v - first, (v - first) * (v - first)};
    });
    if (!centred) return std::pair{0.0, square};
    return std::pair{static_cast<double>(first) + rest, std::max(square - rest * rest, 0.0)};
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
/// for a row of n; unless `centred`, without mean(g). dx may be null, and dweight and dbias may: not
/// wanted. With `accumulate` dx is added to what stands there. dx may be dy.
template <class T>
void layer_norm_backward_row(const T* dy, const T* x, const T* weight, T mean, T rstd, int64_t n,
                             bool centred, bool accumulate, T* dx, T* dweight, T* dbias) {
  auto xhat = [=](int64_t j) { return (x[j] - mean) * rstd; };
  if (dweight)
    simd_for(n, [=](int64_t j) {
      dweight[j] += dy[j] * xhat(j);
      dbias[j] += dy[j];
    });
  if (!dx) return;
  auto finish = [&](auto g) {
    const auto sums = blocked_sums<T>(n, [=](int64_t j) {
      return std::pair{g(j), g(j) * xhat(j)};
    });
    const auto count = static_cast<double>(n);
    const T a = centred ? static_cast<T>(sums.first / count) : T{0};
    const T b = static_cast<T>(sums.second / count);
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
