#pragma once
// Ops that read, write and add elements by index, and ops that compute indices and counts. Indices
// are int64. If an index is negative or too large, the op throws Error with the index.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns the elements of x that `index` selects along dim. For rank 3 and dim = 1: out[i][j][k] =
/// x[i][index[i][j][k]][k]. `index` has x's rank and is no larger than x along any axis other than
/// dim.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
/// Returns x with each element of src added at the position along dim that `index` gives. For rank
/// 3 and dim = 1: out[i][index[i][j][k]][k] += src[i][j][k]. `index` and src have the same shape,
/// which is no larger than x along any axis other than dim. If several elements of src have the
/// same position, all are added, in the order of src.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
///@{
/// Returns x with elements replaced by those of src, or by `value`, at the positions along dim that
/// `index` gives. For rank 3 and dim = 1: out[i][index[i][j][k]][k] = src[i][j][k]. `index` and src
/// have the same shape, which is no larger than x along any axis other than dim. If several
/// elements of src have the same position, the last one is used, and only it gets a gradient.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value);
///@}
/// Returns scatter_add(zeros(shape), dim, index, src), with src's dtype. This is the gradient of
/// gather.
Tensor scatter_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// Returns the entries of x along dim at the positions in the vector `index`. For dim = 0:
/// out[i] = x[index[i]].
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
/// Returns x with each entry of src along dim added at the position that the vector `index` gives.
/// For dim = 0: out[index[i]] += src[i]. If several entries have the same position, all are added.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
/// Returns index_add(zeros(shape), dim, index, src), with src's dtype. This is the gradient of
/// index_select.
Tensor index_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// Returns the row of `weight` for each id: weight (n, d), ids (...), int64 -> (..., d). If the
/// weight is bfloat16 or int8, the result is float32.
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// Returns one-hot vectors, 1 at the position of each id and 0 elsewhere: ids (...), int64 ->
/// (..., classes). If `classes` is -1, uses the largest id + 1, and throws Error if there are no
/// ids. The default dtype is int64, as in PyTorch.
Tensor one_hot(const Tensor& ids, int64_t classes = -1, Dtype dtype = int64);
/// Returns the indices of the elements that are not 0, in row-major order: (count, rank), int64.
/// NaN is not 0.
Tensor nonzero(const Tensor& x);
/// Returns how often each of 0, 1, ..., n - 1 occurs in the int64 vector x: (n), int64. n is the
/// larger of max(x) + 1 and minlength. If `weights` (x's shape, a floating dtype) is given, element
/// i of the result is instead the sum of the weights where x is i, in the weights' dtype. Gradients
/// flow to the weights. Throws Error for negative elements of x.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// Draws n >= 1 indices from each row of weights: probs (..., k) -> (..., n), int64. An index's
/// probability is proportional to its weight. Throws Error for negative, NaN or infinite weights
/// and for a row whose sum is 0 or infinite. Without replacement, also throws if n exceeds the
/// number of non-zero weights in a row.
Tensor multinomial(const Tensor& probs, int64_t n, bool replacement = false);

}  // namespace gradus
