#pragma once
// Ops that read, write and add elements by index, and ops that compute indices and counts. Indices
// are int64. An index that is negative or too large throws Error with its value.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns the elements of x that `index` selects along dim. For rank 3 and dim = 1: out[i][j][k] =
/// x[i][index[i][j][k]][k]. `index` has x's rank and is no larger than x along any axis other than
/// dim.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
/// Returns x with each element of src added at the position along dim given by `index`. For rank 3
/// and dim = 1: out[i][index[i][j][k]][k] += src[i][j][k]. `index` and src have the same shape,
/// which is no larger than x along any axis other than dim. Repeated indices add up, in the order
/// of src.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
///@{
/// Returns x with elements replaced by those of src or by `value`, at the positions along dim given
/// by `index`. For rank 3 and dim = 1: out[i][index[i][j][k]][k] = src[i][j][k]. The shapes must be
/// as in scatter_add. If several elements of src go to one position, the last one is used, and
/// only that one gets a gradient.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value);
///@}
/// Returns scatter_add into zeros of `shape`: the gradient of gather.
Tensor scatter_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// Returns the entries of x along dim that the vector `index` lists.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
/// Returns x with the entries of src along dim added at the positions that the vector `index`
/// lists. Repeated positions add up.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
/// Returns index_add into zeros of `shape`: the gradient of index_select.
Tensor index_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// Returns the rows of weight (n, d) with the given ids (...): (..., d), as float32 if the weight
/// is bfloat16 or int8.
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// Returns one-hot vectors, 1 at the position of each id and 0 elsewhere: ids (...), int64 -> (...,
/// classes). classes = -1 means the largest id + 1, and throws Error if there are no ids. The
/// default dtype is int64, as in PyTorch.
Tensor one_hot(const Tensor& ids, int64_t classes = -1, Dtype dtype = int64);
/// Returns the indices of the elements that are not 0, in row-major order: (count, rank), int64.
/// NaN is not 0.
Tensor nonzero(const Tensor& x);
/// Returns how often each of 0, 1, ..., n - 1 occurs in the int64 vector x: (n), int64. n is max(x)
/// + 1 or minlength, whichever is larger. With weights (x's shape, a floating dtype), adds up the
/// weights of the occurrences, in the weights' dtype, instead of counting. Gradients flow to the
/// weights. Throws Error for negative elements of x.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);
/// Draws n >= 1 indices for each row of probs (..., k), with probabilities proportional to the
/// row's elements (its weights): (..., n), int64. Throws Error for negative, NaN or infinite
/// weights and for a row whose sum is 0 or infinite. Without replacement, also throws if n exceeds
/// the number of non-zero weights in a row.
Tensor multinomial(const Tensor& probs, int64_t n, bool replacement = false);

}  // namespace gradus
