#pragma once
// Joining, expanding and cutting tensors to shape. Views themselves are Tensor's methods; their
// gradients stand in shape.cpp with these.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Joined along an existing axis. All other sizes and the dtype must agree.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
namespace core {
/// Joined along a new axis at `dim`; all shapes must agree.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
}  // namespace core
/// As Tensor::split, for any number of pieces.
std::vector<Tensor> split_into(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim);
/// x's entries along dim as views without that axis; their gradients come back as one tensor, so
/// that a loop over them takes linear time.
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
/// x in reverse order along the axes listed; a copy.
Tensor flip(const Tensor& x, const Axes& dims);
/// x moved on by `shift` places along dim; what leaves at one end comes in at the other.
Tensor roll(const Tensor& x, int64_t shift, Axis dim);
/// Each shift along its axis.
Tensor roll(const Tensor& x, const Shape& shifts, const Axes& dims);
/// Moved on in row-major order.
Tensor roll(const Tensor& x, int64_t shift);
/// A copy of x laid out sizes[i] times along axis i, as torch.Tensor.repeat. More sizes than axes:
/// new axes come first.
Tensor repeat(const Tensor& x, const Shape& sizes);
/// x with `value` around it: padding lists how many before and after, for the last axis, then for
/// the one before it, and so on, as torch.nn.functional.pad: {left, right, top, bottom}. Throws
/// Error on negative numbers; cut with slice.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, double value = 0);
/// x summed down to `shape`, which broadcasts to x's: the backward of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// Zeros of `shape` with x at the places that slice(dim, start, ., step) of it shows: the backward
/// of slice.
Tensor pad_slice(const Tensor& x, const Shape& shape, int64_t dim, int64_t start, int64_t step = 1);
///@{
/// x (..., n, m) with zeros above (tril) or below (triu) the given diagonal.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
///@}

}  // namespace gradus
