#pragma once
// Reading and adding by index. Indices are int64 and checked: out of range throws Error naming the
// index and where it stands.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// out[i][j][k] = x[i][index[i][j][k]][k] for dim 1, and so on; index has x's rank and is nowhere
/// larger than x but along dim.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
/// x + for each element of src: added at the place that index names along dim; the inverse of
/// gather. Index and src have one shape, nowhere larger than x but along dim. Repeated indices add
/// up, in the order of src.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
/// Zeros of `shape` with src's elements added likewise: the backward of gather.
Tensor scatter_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// The entries of x along dim that the vector `index` lists.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
/// x with src's entries along dim added at the places that the vector `index` lists, repeats added
/// up.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src);
/// Zeros of `shape` with src's entries added likewise: the backward of index_select.
Tensor index_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src);
/// Rows of weight (n, d) by ids of any shape (...): (..., d).
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// 1 at the place that each id names, else 0: ids of any shape (...), int64, to (..., classes). -1
/// stands for the largest id + 1. As in PyTorch int64, unless another dtype is asked for.
Tensor one_hot(const Tensor& ids, int64_t classes = -1, Dtype dtype = int64);
/// n indices for each row of probs (..., k), drawn with the row's weights (which need not sum to
/// 1): (..., n), int64. Throws Error on negative, NaN or infinite weights, on a row that sums to 0
/// and, without replacement, on n greater than the number of non-zero weights.
Tensor multinomial(const Tensor& probs, int64_t n, bool replacement = false);

}  // namespace gradus
