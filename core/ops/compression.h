#pragma once
// Matrices in bfloat16 or int8: weights that only forward passes read, in a half or a quarter of
// the memory. Tensor::to converts; linear, feed_forward and embedding compute with them in float32.
// They have no gradient, but linear and feed_forward pass one on to x.
//
// bfloat16 keeps 8 bits of a float32's fraction of 24. int8 is Q8_0 of llama.cpp with a bfloat16
// for its scales: see core/kernels/products/compressed.h.

#include "gradus/core/files/safetensors.h"
#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::internal {

/// Returns x in another dtype, or a copy, where x or the result is compressed. Only float32 can be
/// compressed, to int8 only a matrix of finite elements.
Tensor recoded(const Tensor& x, Dtype dtype);
/// x if it is floating, else x as float32.
Tensor floating(const Tensor& x);
/// Rows [begin, end) of a matrix of float32, float64, bfloat16 or int8, as a view.
Tensor rows_of(const Tensor& matrix, int64_t begin, int64_t end);
/// Converts the tensors in place, so that all handles see the new dtype, and clears their gradients;
/// leaves those of int64 and bool as they are. Compressed tensors no longer require grad. Throws
/// Error, opening with `op` and naming the tensor, with nothing changed, if one does not convert.
void convert_in_place(const char* op, const NamedTensors& tensors, Dtype dtype);
/// Copies `source` to `to`, both compressed, of the same shape and dtype.
void copy_compressed(const Tensor& source, const Tensor& to);
/// out = x weight^T: x (m, k) float32, weight (n, k) compressed, out (m, n) contiguous. Calls
/// `done` as blas::gemm does.
void multiply_compressed(const Tensor& x, const Tensor& weight, const Tensor& out,
                         const blas::TileDone& done);
/// Writes row ids[i] of the compressed `table` to row i of y, float32.
void embed_compressed(const Tensor& table, const Tensor& ids, const Tensor& y);

}  // namespace gradus::internal
