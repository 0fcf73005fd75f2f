#pragma once
// Diagonals and triangles of matrices. Diagonal k of a matrix consists of the elements (i, i + k):
// diagonal 0 is the main diagonal, and diagonals with k > 0 are above it.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns diagonal `offset`, the elements (i, i + offset), of each matrix with rows along dim1 and
/// columns along dim2. The diagonals are the last axis of the result: (n, m, ...) -> (..., length).
/// The length is 0 if the diagonal is outside the matrix. The result is a view of x if x's strides
/// allow it, else a copy.
Tensor diagonal(const Tensor& x, int64_t offset = 0, Axis dim1 = 0, Axis dim2 = 1);
/// Returns diagonal `offset` of a matrix x. For a vector x (n), returns the matrix
/// (n + |offset|, n + |offset|) with x on diagonal `offset` and zeros elsewhere. Throws Error if x
/// has another rank. For a vector, also throws if |offset| > 2^30 or the matrix would be too large.
Tensor diag(const Tensor& x, int64_t offset = 0);
///@{
/// Returns x (..., n, m) with zeros above (tril) or below (triu) diagonal k = `diagonal`, which
/// consists of the elements (i, i + k) of each matrix.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
///@}

}  // namespace gradus
