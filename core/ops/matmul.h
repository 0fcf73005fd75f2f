#pragma once
// Matrix products.

#include "gradus/core/ops/activation.h"

namespace gradus {

/// Multiplies float32 or float64 matrices: a (..., m, k) x b (..., k, n) -> (..., m, n); the batch
/// axes broadcast. Vectors behave as in NumPy: (k) x (..., k, n) -> (..., n), (..., m, k) x (k) ->
/// (..., m), (k) x (k) -> ().
Tensor matmul(const Tensor& a, const Tensor& b);
/// The outer product a_i b_j of two vectors: (n), (m) -> (n, m).
Tensor outer(const Tensor& a, const Tensor& b);

/// act(x W^T + b): x (..., in), W (out, in), b (out) or undefined -> (..., out). Adds b and applies
/// act in the pass that computes the product.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

/// The feed-forward layer of a transformer, act(x W1^T + b1) W2^T + b2: x (..., in), W1 (hidden,
/// in), W2 (out, hidden), biases undefined or as long as their outputs -> (..., out). For backward
/// it saves one tensor (..., hidden), x W1^T + b1 or its activation, where two calls of linear save
/// both.
Tensor feed_forward(const Tensor& x, const Tensor& w1, const Tensor& b1, Activation activation,
                    const Tensor& w2, const Tensor& b2);

}  // namespace gradus
