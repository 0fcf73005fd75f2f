#pragma once
// Diagonals and triangles of matrices. Diagonal k of a matrix has the elements (i, i + k): 0 is the
// main diagonal, positive ones are above it.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns the diagonal `offset` of the matrices along axes dim1 and dim2, as the last axis:
/// (n, m, ...) -> (..., length). It is empty if the offset is outside the matrix, and a view of x
/// if x's strides allow.
Tensor diagonal(const Tensor& x, int64_t offset = 0, Axis dim1 = 0, Axis dim2 = 1);
/// Returns the diagonal `offset` of a matrix. For a vector (n), returns the matrix
/// (n + |offset|, n + |offset|) with x on that diagonal and zeros elsewhere. Throws Error for other
/// ranks.
Tensor diag(const Tensor& x, int64_t offset = 0);
///@{
/// Returns x (..., n, m) with zeros above (tril) or below (triu) the given diagonal.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
///@}

}  // namespace gradus
