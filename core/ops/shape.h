#pragma once
// Ops that join, split, reorder, repeat and pad tensors. shape.cpp also implements the methods of
// Tensor that return views, such as permute.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns one or more tensors concatenated along the existing axis `dim`. The sizes of the other
/// axes and the dtypes must agree.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
/// Returns the tensors stacked along a new axis at `dim`. All shapes and dtypes must agree. In a
/// file that includes `<stack>` and has `using namespace std`, call it gradus::stack.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
/// Returns views of consecutive parts of axis dim: part i has size sizes[i]. Throws Error unless
/// the sizes add up to the size of the axis. (Tensor::split does the same, but takes a Shape, which
/// contains at most max_rank sizes.)
std::vector<Tensor> split_into(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim);
/// Returns the slices of x along dim, one per index, as views without that axis. Backward stacks
/// the gradients of all slices at once, in time linear in x's size.
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
/// Returns a copy of x in reverse order along the given axes.
Tensor flip(const Tensor& x, const Axes& dims);
/// Returns x shifted cyclically by `shift` positions along dim.
Tensor roll(const Tensor& x, int64_t shift, Axis dim);
/// Returns x shifted cyclically along several axes, by shifts[i] along dims[i].
Tensor roll(const Tensor& x, const Shape& shifts, const Axes& dims);
/// Returns x with its elements shifted cyclically in row-major order, as if x had one axis.
Tensor roll(const Tensor& x, int64_t shift);
/// Returns a copy of x repeated sizes[i] times along axis i, as torch.Tensor.repeat does. If there
/// are more sizes than axes, the first sizes belong to new axes in front.
Tensor repeat(const Tensor& x, const Shape& sizes);
/// Returns x padded with `value`. `padding` contains two sizes per axis, the padding at its start
/// and at its end. The last axis comes first: {left, right, top, bottom} pads an image, as in
/// torch.nn.functional.pad. Throws Error for negative padding; use slice to crop.
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, double value = 0);
/// Returns x summed to `shape`, which must broadcast to x's shape. The sum runs over the axes that
/// broadcasting would add or expand. This is the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// Returns zeros(shape) with the entries of x copied to the positions start, start + step, ...
/// along dim. This is the gradient of slice.
Tensor pad_slice(const Tensor& x, const Shape& shape, int64_t dim, int64_t start, int64_t step = 1);

}  // namespace gradus
