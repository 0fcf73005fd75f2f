#pragma once
// Compressed tensors: weights in bfloat16 or int8, which occupy a half or about a quarter of the
// memory of float32. Tensor::to converts to and from these dtypes. linear, updated_linear,
// feed_forward and embedding read compressed weights and return float32. Compressed weights have no
// gradient, but linear, updated_linear and feed_forward compute the gradient of their input x.
//
// bfloat16 keeps 8 of the 24 bits of a float32's significand. The int8 format is llama.cpp's Q8_0,
// except that the scales, one per 32 elements of a row, are bfloat16 and in a separate tensor.

#include "gradus/core/files/safetensors.h"
#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::internal {

/// Returns a copy of x converted to `dtype`, which may be x's own dtype. At least one of the two
/// dtypes must be bfloat16 or int8. Throws Error in these cases:
/// - x is float64, int64 or bool.
/// - `dtype` is int8, and x is not a matrix of finite elements.
/// - `dtype` is int64, and an element is NaN or out of int64's range.
/// - x is bfloat16 or int8, and is not contiguous.
/// - x is an int8 view whose shape differs from that of the viewed matrix. Such a view has no
///   scales.
Tensor recoded(const Tensor& x, Dtype dtype);
/// Returns x converted to float32 if x is bfloat16 or int8, else x itself.
Tensor floating(const Tensor& x);
/// Returns rows [begin, end) of a matrix of float32, float64, bfloat16 or int8, as a view.
Tensor rows_of(const Tensor& matrix, int64_t begin, int64_t end);
/// Converts the float32, float64, bfloat16 and int8 tensors in `tensors` to `dtype` in place: every
/// Tensor object that refers to one of them sees the new dtype. Skips int64 and bool tensors, and
/// tensors that already have this dtype. Clears the gradients of the converted tensors. A tensor
/// converted to bfloat16 or int8 no longer requires grad. If a tensor cannot be converted, changes
/// nothing and throws Error; the message begins with `op` and names the tensor.
void convert_in_place(const char* op, const NamedTensors& tensors, Dtype dtype);
/// Copies the elements of `source`, and its scales if it is int8, into `to`, and returns `to`. Both
/// tensors must be bfloat16 or int8. Throws Error unless both are contiguous, of the same shape and
/// of the same dtype. Also throws Error if one of them is an int8 view whose shape differs from
/// that of the viewed matrix.
Tensor copy_compressed(const Tensor& source, const Tensor& to);
/// Computes out = x weight^T: x (m, k) float32, weight (n, k) bfloat16 or int8, out (m, n) float32
/// and contiguous. If `done` is not empty, calls done(tile) for each tile of out once the tile is
/// computed.
void multiply_compressed(const Tensor& x, const Tensor& weight, const Tensor& out,
                         const blas::TileDone& done);
/// Writes row ids[i] of `table`, a bfloat16 or int8 matrix, to row i of the float32 tensor y. ids
/// and y must be contiguous, and each id must be the index of a row of `table`.
void embed_compressed(const Tensor& table, const Tensor& ids, const Tensor& y);

}  // namespace gradus::internal
