#pragma once
// Maxima, minima, sorting, medians, quantiles and distinct elements. If any element is NaN, the
// maximum and the minimum are NaN.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Elements of a tensor x and their indices along an axis.
struct ValuesAndIndices {
  Tensor values;   ///< the elements, of x's dtype
  Tensor indices;  ///< the index of each element along the axis, int64
};
///@{
/// Returns the maximum (minimum) along dim and the index of its first occurrence. If there is a
/// NaN, the first NaN is the result. Only the returned element gets a gradient. Throws Error if
/// axis dim has size 0, unless the result has no elements.
ValuesAndIndices max(const Tensor& x, Axis dim, KeepDim keep = false);
ValuesAndIndices min(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// Returns the maximum (minimum) of all elements. The gradient flows to its first occurrence.
/// Throws Error if x is empty.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
///@}
///@{
/// Returns the index of the first maximum (minimum) along dim, int64. If there is a NaN, returns
/// the index of the first NaN. Throws Error if axis dim has size 0, unless the result has no
/// elements.
Tensor argmax(const Tensor& x, Axis dim, KeepDim keep = false);
Tensor argmin(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// Returns the row-major index of the first maximum (minimum) of all elements, int64 of rank 0.
/// Throws Error if x is empty.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
///@}
/// Returns the elements of x sorted along dim, and their indices. The sort is stable. NaN counts as
/// the largest value.
ValuesAndIndices sort(const Tensor& x, Axis dim = -1, bool descending = false);
/// Returns the indices that sort x along dim, int64. The sort is stable. NaN counts as the largest
/// value.
Tensor argsort(const Tensor& x, Axis dim = -1, bool descending = false);
/// Returns the k largest elements along dim and their indices, in descending order. NaN counts as
/// the largest value. Equal elements are taken in the order of their indices. Throws Error unless k
/// is from 0 to the size of the axis.
ValuesAndIndices topk(const Tensor& x, int64_t k, Axis dim = -1);
///@{
/// Returns the median along dim and its index or, without dim, the median of all elements. For an
/// even number of elements, the median is the lower of the two in the middle. If there is a NaN,
/// the first NaN is the result. Only the returned element gets a gradient. Throws Error if the axis
/// has size 0 or, without dim, if x is empty.
ValuesAndIndices median(const Tensor& x, Axis dim, KeepDim keep = false);
Tensor median(const Tensor& x);
///@}
///@{
/// Returns the q-quantile along dim or, without dim, of all elements: the value at position
/// q (n - 1) of the n elements in ascending order. If this position is not an integer, the value is
/// interpolated linearly between the two elements next to it. If there is a NaN, the result is NaN.
/// Only the one or two elements used get a gradient. Throws Error if x is not float32 or float64,
/// if q is outside [0, 1], or if n is 0.
Tensor quantile(const Tensor& x, double q, Axis dim, KeepDim keep = false);
Tensor quantile(const Tensor& x, double q);
///@}

/// The n distinct elements of a tensor x.
struct UniqueOutput {
  Tensor values;   ///< (n), ascending
  Tensor inverse;  ///< for each element of x, its index in `values`: x's shape, int64
  Tensor counts;   ///< how often each value occurs in x: (n), int64
};
/// Returns the distinct elements of x, without a gradient. Each NaN counts as a separate element,
/// as in PyTorch; -0 equals 0.
UniqueOutput unique(const Tensor& x);

}  // namespace gradus
