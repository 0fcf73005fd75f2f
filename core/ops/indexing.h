#pragma once
// Reading and adding elements by index. Indices are int64; an index out of range throws Error with
// its value and position.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// For dim 1: out[i][j][k] = x[i][index[i][j][k]][k]; other axes likewise. index has x's rank and
/// is no larger than x along any axis other than dim.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
/// x with each element of src added at the position along dim given by index: for dim 1,
/// out[i][index[i][j][k]][k] += src[i][j][k]. index and src have the same shape, no larger than x
/// along any axis other than dim. Repeated indices add up, in the order of src.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
///@{
/// x with the elements of src, or `value`, at the positions along dim given by index: for dim 1,
/// out[i][index[i][j][k]][k] = src[i][j][k]. Shapes as for scatter_add. Where an index repeats, the
/// last element of src is kept, and it alone gets the gradient.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value);
///@}
/// scatter_add into zeros of `shape`: the backward of gather.
Tensor scatter_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// The entries of x along dim listed in the vector `index`.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
/// x with src's entries along dim added at the positions listed in the vector `index`; repeats add
/// up.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
/// index_add into zeros of `shape`: the backward of index_select.
Tensor index_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// The rows of weight (n, d) given by ids (...): (..., d).
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// One-hot vectors: 1 at each id's position, 0 elsewhere; ids (...), int64 -> (..., classes).
/// classes = -1 means the largest id + 1. The default dtype is int64, as in PyTorch.
Tensor one_hot(const Tensor& ids, int64_t classes = -1, Dtype dtype = int64);
/// The indices of the elements that are not 0 (NaN is not), in row-major order: (count, rank), int64.
Tensor nonzero(const Tensor& x);
/// How often each of 0, 1, ... occurs in the vector x of int64: int64, of length max(x) + 1 or
/// minlength, whichever is larger. With weights, floating and of x's shape, the sum of the weights at
/// these positions instead, in their dtype; it has a gradient.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// Draws n indices for each row of probs (..., k), with probabilities proportional to the row's
/// elements, its weights: (..., n), int64. Throws Error for negative, NaN or infinite weights, for
/// a row that sums to 0 and, without replacement, if n exceeds the row's number of non-zero
/// weights.
Tensor multinomial(const Tensor& probs, int64_t n, bool replacement = false);

}  // namespace gradus
