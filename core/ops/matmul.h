#pragma once
// Matrix products, linear layers and the feed-forward layer of a transformer. If the input x of a
// layer is float32, its weights may be bfloat16 or int8; such weights get no gradient.

#include "gradus/core/ops/activation.h"

namespace gradus {

/// Returns the matrix product of two float32 or two float64 tensors: a (..., m, k) x b (..., k, n)
/// -> (..., m, n). The batch axes broadcast. Vectors behave as in NumPy: (k) x (..., k, n) ->
/// (..., n), (..., m, k) x (k) -> (..., m), (k) x (k) -> ().
Tensor matmul(const Tensor& a, const Tensor& b);
/// Returns the outer product a_i b_j of two vectors: (n), (m) -> (n, m).
Tensor outer(const Tensor& a, const Tensor& b);

/// Returns act(x W^T + b): x (..., in), W (out, in), b (out) or undefined -> (..., out). b and act
/// are applied in the same pass as the product.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

/// Returns x W^T + b + t B^T, a linear layer with a low-rank term: x (..., in), W (out, in),
/// b (out) or undefined, t (..., rank), B = `update` (out, rank) -> (..., out). In LoRA, t is x A^T
/// times a factor, computed by the caller. If W needs no gradient, x is not kept for backward.
Tensor updated_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& t,
                      const Tensor& update);

/// Returns act(x W1^T + b1) W2^T + b2, the feed-forward layer of a transformer: x (..., in), W1
/// (hidden, in), W2 (out, hidden) -> (..., out). b1 (hidden) and b2 (out) may be undefined. This op
/// saves one tensor (..., hidden) for backward. For gelu and other activations whose derivative
/// cannot be computed from their output, two calls of linear save two such tensors.
Tensor feed_forward(const Tensor& x, const Tensor& w1, const Tensor& b1, Activation activation,
                    const Tensor& w2, const Tensor& b2);

}  // namespace gradus
