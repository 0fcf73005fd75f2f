#pragma once
// Matrix products.

#include "gradus/core/ops/activation.h"

namespace gradus {

/// The matrix product a b of float32 or float64: (..., m, k) x (..., k, n) -> (..., m, n); the
/// batch axes broadcast. Vectors as in NumPy: (k) x (..., k, n) -> (..., n), (..., m, k) x (k) ->
/// (..., m), (k) x (k) -> ().
Tensor matmul(const Tensor& a, const Tensor& b);

/// act(x W^T + b): x (..., in), W (out, in), b (out) or undefined -> (..., out), in one pass over
/// the output.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

/// A transformer's feed-forward layer, act(x W1^T + b1) W2^T + b2: x (..., in), W1 (hidden, in), b1
/// (hidden) or undefined, W2 (out, hidden), b2 (out) or undefined -> (..., out). It saves one
/// tensor of the hidden size for backward, x W1^T + b1 or its activation, where two linear layers
/// save two.
Tensor feed_forward(const Tensor& x, const Tensor& w1, const Tensor& b1, Activation activation,
                    const Tensor& w2, const Tensor& b2);

}  // namespace gradus
