#pragma once
// Joining, repeating and padding tensors. Views are Tensor's methods, implemented in shape.cpp too.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Concatenates along an existing axis. All other sizes and the dtype must agree.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
namespace core {
/// Stacks along a new axis at `dim`; all shapes must agree.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
}  // namespace core
/// As Tensor::split, but for any number of pieces (a Shape holds at most max_rank sizes).
std::vector<Tensor> split_into(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim);
/// The entries of x along dim, as views without that axis. Backward joins their gradients in one
/// tensor, so backward through a loop over all entries takes time linear in x's size.
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
/// A copy of x in reverse order along the given axes.
Tensor flip(const Tensor& x, const Axes& dims);
/// x shifted cyclically by `shift` positions along dim.
Tensor roll(const Tensor& x, int64_t shift, Axis dim);
/// x shifted cyclically along several axes, by shifts[i] along dims[i].
Tensor roll(const Tensor& x, const Shape& shifts, const Axes& dims);
/// x shifted cyclically as one row of all its elements, in row-major order.
Tensor roll(const Tensor& x, int64_t shift);
/// A copy of x repeated sizes[i] times along axis i, like torch.Tensor.repeat. If there are more
/// sizes than axes, new axes come first.
Tensor repeat(const Tensor& x, const Shape& sizes);
/// x padded with `value`. `padding` lists how many elements to add before and after along the last
/// axis, then along the one before it, and so on: {left, right, top, bottom}, as in
/// torch.nn.functional.pad. Throws Error for negative padding; use slice to crop.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, double value = 0);
/// x summed to `shape`, over the axes along which `shape` broadcasts to x's shape. This is the
/// backward of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// Zeros of `shape` with x at the positions that slice(dim, start, end, step) reads: the backward
/// of slice.
Tensor pad_slice(const Tensor& x, const Shape& shape, int64_t dim, int64_t start, int64_t step = 1);

}  // namespace gradus
