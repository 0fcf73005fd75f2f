#pragma once
// Reductions, orderings and what is built on them. Axes may be negative; an empty Shape (write
// Shape{}) means all axes. Long sums are blocked, in an order that does not depend on the number of
// threads.

#include "gradus/core/tensor.h"

namespace gradus {

Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, const Shape& dims, bool keep = false);
Tensor sum(const Tensor& x, int64_t dim, bool keep = false);
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, const Shape& dims, bool keep = false);
Tensor mean(const Tensor& x, int64_t dim, bool keep = false);
/// The variance with divisor n - correction (1: unbiased, as torch.var).
Tensor var(const Tensor& x, const Shape& dims, int64_t correction = 1, bool keep = false);
/// The Euclidean norm sqrt(sum x^2); its gradient at 0 is 0.
Tensor norm(const Tensor& x);
Tensor norm(const Tensor& x, const Shape& dims, bool keep = false);
/// log(sum(exp x)) along dim, without overflow; -inf where all are -inf.
Tensor logsumexp(const Tensor& x, int64_t dim, bool keep = false);

struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  ///< int64
};
/// The largest (smallest) along dim and where it stands (the first, if several). NaN counts as
/// largest (smallest). The gradient goes to that one element.
ValuesAndIndices max(const Tensor& x, int64_t dim, bool keep = false);
ValuesAndIndices min(const Tensor& x, int64_t dim, bool keep = false);
/// The largest (smallest) of all elements; the gradient goes to the first of them.
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
/// Index of the largest along dim, int64.
Tensor argmax(const Tensor& x, int64_t dim, bool keep = false);
/// Stable sort along dim; NaN counts as largest.
ValuesAndIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false);
/// The k largest along dim, in descending order.
ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim = -1);

}  // namespace gradus
