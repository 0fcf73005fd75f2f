#pragma once
// What depends on the order of numbers: the largest and smallest, sorting. NaN is never passed
// over.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Elements, and where along the axis they stand.
struct ValuesAndIndices {
  Tensor values;   ///< x's dtype
  Tensor indices;  ///< int64
};
///@{
/// The largest (smallest) along dim and where it stands (the first, if several). NaN counts as
/// largest (smallest). The gradient goes to that one element.
ValuesAndIndices max(const Tensor& x, Axis dim, KeepDim keep = false);
ValuesAndIndices min(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// The largest (smallest) of all elements; the gradient goes to the first of them.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
///@}
///@{
/// Where the largest (smallest) stands along dim, int64; as max and min, the first and NaN first.
Tensor argmax(const Tensor& x, Axis dim, KeepDim keep = false);
Tensor argmin(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// Where it stands among all elements in row-major order: a tensor of rank 0, int64.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
///@}
/// Stable sort along dim; NaN counts as largest.
ValuesAndIndices sort(const Tensor& x, Axis dim = -1, bool descending = false);
/// The places that sort takes its elements from, int64.
Tensor argsort(const Tensor& x, Axis dim = -1, bool descending = false);
/// The k largest along dim, in descending order.
ValuesAndIndices topk(const Tensor& x, int64_t k, Axis dim = -1);

}  // namespace gradus
