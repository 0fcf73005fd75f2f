#pragma once
// Reductions, orderings and what is built on them. Axes may be negative; none given, or {}, means
// all. Long sums are blocked, in an order that does not depend on the number of threads.

#include "gradus/core/tensor.h"

namespace gradus {

/// Of bool: how many are true, int64. Throws Error where an int64 sum overflows.
Tensor sum(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
Tensor mean(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// The variance with divisor n - correction (1: unbiased, as torch.var).
Tensor var(const Tensor& x, const Axes& dims = {}, int64_t correction = 1, KeepDim keep = false);
template <std::same_as<bool> B>  // var(x, dims, true): keepdim or a correction of 1?
Tensor var(const Tensor& x, const Axes& dims, B, KeepDim keep = false) = delete;
/// The Euclidean norm sqrt(sum x^2); its gradient at 0 is 0.
Tensor norm(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// Over all axes, kept with size 1.
inline Tensor sum(const Tensor& x, KeepDim keep) { return sum(x, {}, keep); }
inline Tensor mean(const Tensor& x, KeepDim keep) { return mean(x, {}, keep); }
inline Tensor norm(const Tensor& x, KeepDim keep) { return norm(x, {}, keep); }
/// log(sum(exp x)) along dim, without overflow; -inf where all are -inf.
Tensor logsumexp(const Tensor& x, Axis dim, KeepDim keep = false);

struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  ///< int64
};
/// The largest (smallest) along dim and where it stands (the first, if several). NaN counts as
/// largest (smallest). The gradient goes to that one element.
ValuesAndIndices max(const Tensor& x, Axis dim, KeepDim keep = false);
ValuesAndIndices min(const Tensor& x, Axis dim, KeepDim keep = false);
/// The largest (smallest) of all elements; the gradient goes to the first of them.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
/// Index of the largest along dim, int64.
Tensor argmax(const Tensor& x, Axis dim, KeepDim keep = false);
/// Stable sort along dim; NaN counts as largest.
ValuesAndIndices sort(const Tensor& x, Axis dim = -1, bool descending = false);
/// The k largest along dim, in descending order.
ValuesAndIndices topk(const Tensor& x, int64_t k, Axis dim = -1);

}  // namespace gradus
