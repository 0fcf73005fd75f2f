#pragma once
// Matrices in bfloat16 or int8: weights for forward passes only, which take a half or a quarter of
// the memory. Tensor::to converts to and from them. linear, feed_forward and embedding compute with
// them in float32. They have no gradient, but linear and feed_forward compute the gradient of x.
//
// bfloat16 keeps 8 of the 24 bits of a float32's fraction. int8 is llama.cpp's Q8_0 with bfloat16
// scales: see core/kernels/products/compressed.h.

#include "gradus/core/files/safetensors.h"
#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::internal {

/// Returns a copy of x in another dtype, or in the same dtype, where x or the result is compressed.
/// Only float32 can be compressed. Only a matrix of finite elements can become int8.
Tensor recoded(const Tensor& x, Dtype dtype);
/// Returns x if it is floating, else x as float32.
Tensor floating(const Tensor& x);
/// Returns rows [begin, end) of a matrix of float32, float64, bfloat16 or int8, as a view.
Tensor rows_of(const Tensor& matrix, int64_t begin, int64_t end);
/// Converts the tensors in place, so that all handles see the new dtype, and clears their
/// gradients. Leaves int64 and bool tensors unchanged. Compressed tensors no longer require grad.
/// If a tensor cannot be converted, changes nothing and throws Error, which opens with `op` and
/// names the tensor.
void convert_in_place(const char* op, const NamedTensors& tensors, Dtype dtype);
/// Copies `source` to `to`. Both are compressed and have the same shape and dtype.
void copy_compressed(const Tensor& source, const Tensor& to);
/// Computes out = x weight^T: x (m, k) float32, weight (n, k) compressed, out (m, n) contiguous.
/// Calls done(tile) for each finished tile of out, like blas::gemm.
void multiply_compressed(const Tensor& x, const Tensor& weight, const Tensor& out,
                         const blas::TileDone& done);
/// Writes row ids[i] of the compressed `table` to row i of y, as float32.
void embed_compressed(const Tensor& table, const Tensor& ids, const Tensor& y);

}  // namespace gradus::internal
