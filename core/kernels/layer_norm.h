#pragma once
// Layer norm and RMS norm of a row, and their gradients.
//
// The composed form, written with basic ops, is composed_norm in core/ops/normalization.cpp: the
// ops that compute d = x - mean(x) and y = d / sqrt(mean(d * d) + eps) * weight + bias. The kernel
// reads a row from memory once forward and once backward. For backward it saves x, mean(x) and
// 1 / sqrt(mean(d * d) + eps) instead of every intermediate tensor. For a tensor (4096, 256),
// forward and backward with this kernel are 4.5 times as fast as in the composed form.

#include <algorithm>
#include <cmath>

#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// Elements in `pieces` blocks of n contiguous elements each. The first block starts at x, and each
/// further block starts `step` elements after the start of the previous block.
template <class T>
struct Pieces {
  const T* x;
  int64_t n, pieces = 1, step = 0;
};

/// Returns the means of f(v).first and of f(v).second over all elements v. Each element is
/// converted to S before f is applied.
template <class S, class T, class F>
[[gnu::always_inline]] inline std::pair<double, double> means_of(const Pieces<T>& all, F f) {
  double first = 0, second = 0;
  for (int64_t p = 0; p < all.pieces; ++p) {
    const auto sums = blocked_sums<S>(
        all.n, [=, from = all.x + p * all.step](int64_t j) { return f(static_cast<S>(from[j])); });
    first += sums.first;
    second += sums.second;
  }
  const auto count = static_cast<double>(all.n * all.pieces);
  return {first / count, second / count};
}

/// Returns the mean and the variance of all elements or, if not `centred`, 0 and the mean square.
/// Computes in S. Because of rounding, the mean r of x - mean is not exactly 0, so r is added to
/// the mean, and r * r is subtracted from the variance: Chan, Golub, LeVeque 1983, "Algorithms for
/// Computing the Sample Variance".
template <class S, class T>
std::pair<double, double> moments_in(const Pieces<T>& all, bool centred) {
  S center = 0;
  if (centred)
    center = static_cast<S>(means_of<S>(all, [](S v) { return std::pair{v, S{0}}; }).first);
  const auto [rest, square] = means_of<S>(all, [=](S v) {
    return std::pair{v - center, (v - center) * (v - center)};
  });
  if (!centred) return {0.0, square};
  return {static_cast<double>(center) + rest, std::max(square - rest * rest, 0.0)};
}

/// Returns the mean and the variance (divisor: the number of elements) of all elements or, if not
/// `centred`, 0 and the mean square. Computes in T, and again in double if the variance is not
/// finite or if variance and eps are both below 1e-30. If eps >= 1e-30, a variance below 1e-30 may
/// be rounded to 0.
template <class T>
std::pair<double, double> mean_and_variance(const Pieces<T>& all, double eps, bool centred) {
  const auto moments = moments_in<T>(all, centred);
  // A variance that underflows does no harm if eps >= 1e-30.
  const bool underflow = std::max(moments.second, eps) < 1e-30;
  if (!std::isfinite(moments.second) || underflow) return moments_in<double>(all, centred);
  return moments;
}

/// A row x, its mean and rstd = 1/sqrt(var + eps). For RMS norm, mean is 0 and var is the mean
/// square.
template <class T>
struct NormalizedRow {
  const T* x;
  T mean, rstd;
  /// Returns element j, normalised.
  [[gnu::always_inline]] T xhat(int64_t j) const { return (x[j] - mean) * rstd; }
};

/// Layer norm or, if not `centred`, RMS norm of rows of n elements. weight and bias may be null.
template <class T>
struct LayerNorm {
  int64_t n;
  bool centred;
  const T* weight = nullptr;
  const T* bias = nullptr;

  /// Computes y = xhat * weight + bias, where xhat is x normalised. Returns x with its mean and
  /// rstd, which the gradients need.
  NormalizedRow<T> forward(const T* x, double eps, T* y) const {
    const auto moments = mean_and_variance(Pieces<T>{x, n}, eps, centred);
    const NormalizedRow<T> row{x, static_cast<T>(moments.first),
                               static_cast<T>(1 / std::sqrt(moments.second + eps))};
    if (weight && bias)
      simd_for(n, [=, w = weight, b = bias](int64_t j) { y[j] = row.xhat(j) * w[j] + b[j]; });
    else if (weight)
      simd_for(n, [=, w = weight](int64_t j) { y[j] = row.xhat(j) * w[j]; });
    else if (bias)
      simd_for(n, [=, b = bias](int64_t j) { y[j] = row.xhat(j) + b[j]; });
    else
      simd_for(n, [=](int64_t j) { y[j] = row.xhat(j); });
    return row;
  }

  /// Adds dy * xhat to dweight and dy to dbias, where xhat is the normalised row.
  void add_parameter_gradients(const NormalizedRow<T>& row, const T* dy, T* dweight,
                               T* dbias) const {
    simd_for(n, [=](int64_t j) {
      dweight[j] += dy[j] * row.xhat(j);
      dbias[j] += dy[j];
    });
  }

  /// Computes dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * weight, where xhat is
  /// the normalised row. RMS norm omits the term mean(g). If `accumulate`, adds the result to dx
  /// instead of overwriting dx. dx may be dy.
  void input_gradient(const NormalizedRow<T>& row, const T* dy, bool accumulate, T* dx) const {
    if (weight)
      input_gradient_of(
          row, [=, w = weight](int64_t j) { return dy[j] * w[j]; }, accumulate, dx);
    else
      input_gradient_of(
          row, [=](int64_t j) { return dy[j]; }, accumulate, dx);
  }

 private:
  template <class G>
  void input_gradient_of(NormalizedRow<T> row, G g, bool accumulate, T* dx) const {
    const auto sums = blocked_sums<T>(n, [=](int64_t j) {
      return std::pair{g(j), g(j) * row.xhat(j)};
    });
    const auto count = static_cast<double>(n);
    const T a = centred ? static_cast<T>(sums.first / count) : T{0};
    const T b = static_cast<T>(sums.second / count);
    if (accumulate)
      simd_for(n, [=](int64_t j) { dx[j] += row.rstd * (g(j) - a - row.xhat(j) * b); });
    else
      simd_for(n, [=](int64_t j) { dx[j] = row.rstd * (g(j) - a - row.xhat(j) * b); });
  }
};

}  // namespace gradus::kernel
