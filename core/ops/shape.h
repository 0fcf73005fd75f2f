#pragma once
// Joining, expanding and cutting tensors to shape. Views themselves are Tensor's methods; their
// gradients stand in shape.cpp with these.

#include <vector>

#include "gradus/core/tensor.h"

namespace gradus {

/// Joined along an existing axis. All other sizes and the dtype must agree.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
namespace core {
/// Joined along a new axis at `dim`; all shapes must agree.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
}  // namespace core
/// As Tensor::split, for any number of pieces.
std::vector<Tensor> split_into(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim);
/// x summed down to `shape`, which broadcasts to x's: the backward of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// Zeros of `shape` with x at the places that slice(dim, start, ., step) of it shows: the backward
/// of slice.
Tensor pad_slice(const Tensor& x, const Shape& shape, int64_t dim, int64_t start, int64_t step = 1);
/// x (..., n, m) with zeros above (tril) or below (triu) the given diagonal.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace gradus
