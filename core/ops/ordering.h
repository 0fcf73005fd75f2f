#pragma once
// Maxima, minima, sorting, medians and distinct elements. If there is a NaN, it is both the maximum
// and the minimum.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Elements of a tensor x and their indices along an axis.
struct ValuesAndIndices {
  Tensor values;   ///< x's dtype
  Tensor indices;  ///< int64
};
///@{
/// Returns the maximum (minimum) along dim and the index of its first occurrence. If there is a
/// NaN, the first NaN is the result. The gradient flows to that one element.
ValuesAndIndices max(const Tensor& x, Axis dim, KeepDim keep = false);
ValuesAndIndices min(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// Returns the maximum (minimum) of all elements. The gradient flows to its first occurrence.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
///@}
///@{
/// Returns the index of the maximum (minimum) along dim, int64: the indices that max and min
/// return.
Tensor argmax(const Tensor& x, Axis dim, KeepDim keep = false);
Tensor argmin(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// Returns the row-major index of the maximum (minimum) of all elements, int64 of rank 0.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
///@}
/// Sorts along dim, stably. NaN counts as the largest value.
ValuesAndIndices sort(const Tensor& x, Axis dim = -1, bool descending = false);
/// Returns the indices that sort returns, int64.
Tensor argsort(const Tensor& x, Axis dim = -1, bool descending = false);
/// Returns the k largest elements along dim, in descending order.
ValuesAndIndices topk(const Tensor& x, int64_t k, Axis dim = -1);
///@{
/// Returns the median along dim and its index, or the median of all elements: the lower one of the
/// two in the middle if their number is even, the first NaN if there is a NaN. The gradient flows
/// to that one element. Throws Error if there are no elements.
ValuesAndIndices median(const Tensor& x, Axis dim, KeepDim keep = false);
Tensor median(const Tensor& x);
///@}
///@{
/// Returns the q-quantile along dim or of all elements: the value at position q (n - 1) of the n
/// elements in ascending order, interpolated linearly between two of them, or NaN if there is a
/// NaN. The gradient flows to these elements. Throws Error unless 0 <= q <= 1, and if n is 0.
Tensor quantile(const Tensor& x, double q, Axis dim, KeepDim keep = false);
Tensor quantile(const Tensor& x, double q);
///@}

/// The distinct elements of a tensor.
struct UniqueOutput {
  Tensor values;   ///< (n), ascending
  Tensor inverse;  ///< for each element of the tensor its index in `values`, int64
  Tensor counts;   ///< how often each value occurs: (n), int64
};
/// Returns the distinct elements of x, without a gradient. Each NaN is distinct, as in PyTorch; -0
/// equals 0.
UniqueOutput unique(const Tensor& x);

}  // namespace gradus
