#pragma once
// Matrix products.

#include "gradus/core/ops/pointwise.h"
#include "gradus/core/tensor.h"

namespace gradus {

/// a (..., m, k) x b (..., k, n) -> (..., m, n); the batch axes broadcast. Vectors are taken as in NumPy:
/// (k) x (..., k, n) -> (..., n), (..., m, k) x (k) -> (..., m), (k) x (k) -> ().
Tensor matmul(const Tensor& a, const Tensor& b);

/// What linear applies to its output.
enum class Activation { none, relu, gelu_erf, gelu_tanh };

/// act(x W^T + b): x (..., in), W (out, in), b (out) or undefined -> (..., out), in one pass over the
/// output.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace gradus
