#pragma once
// Activation functions as ops on float32 and float64 tensors, and the enum with which a layer
// selects its activation.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Selects an activation function. The ops linear and feed_forward compute the activation in the
/// same pass as the matrix product before it.
enum class Activation {
  none,
  relu,
  tanh,
  sigmoid,
  gelu,
  gelu_tanh,
  silu,
  quick_gelu,
  relu_squared
};
namespace core {
/// All activations, in the order of the enum.
inline constexpr auto activations = [] {
  std::array<Activation, static_cast<size_t>(Activation::relu_squared) + 1> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Activation>(i);
  return all;
}();
/// Returns the name of the activation's op, for example "gelu_tanh"; "none" for Activation::none.
const char* name_of(Activation activation);
/// Returns the activation of each element of x; for Activation::none, x itself.
Tensor activate(const Tensor& x, Activation activation);
}  // namespace core

/// Returns max(x, 0). The derivative at 0 is 0.
inline Tensor relu(const Tensor& x) { return core::activate(x, Activation::relu); }
/// Returns (e^x - e^-x) / (e^x + e^-x).
inline Tensor tanh(const Tensor& x) { return core::activate(x, Activation::tanh); }
/// Returns 1 / (1 + e^-x).
inline Tensor sigmoid(const Tensor& x) { return core::activate(x, Activation::sigmoid); }
/// Returns x Phi(x), where Phi is the cumulative distribution function of the standard normal
/// distribution. Hendrycks & Gimpel 2016, arXiv 1606.08415.
inline Tensor gelu(const Tensor& x) { return core::activate(x, Activation::gelu); }
/// Returns x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's approximation of gelu.
inline Tensor gelu_tanh(const Tensor& x) { return core::activate(x, Activation::gelu_tanh); }
/// Returns x sigmoid(x). Elfwing et al. 2017, arXiv 1702.03118.
inline Tensor silu(const Tensor& x) { return core::activate(x, Activation::silu); }
/// Returns x sigmoid(1.702 x), CLIP's approximation of gelu.
inline Tensor quick_gelu(const Tensor& x) { return core::activate(x, Activation::quick_gelu); }
/// Returns max(x, 0)^2. The derivative at 0 is 0. So et al. 2021 (Primer), arXiv 2109.08668.
inline Tensor relu_squared(const Tensor& x) { return core::activate(x, Activation::relu_squared); }

/// Returns act(a) b, where a is the first and b the second half of x's last axis: (..., 2n) ->
/// (..., n). With silu this is the gate of SwiGLU: Shazeer 2020, arXiv 2002.05202. (torch's glu
/// activates the second half: a sigmoid(b).)
Tensor gated(const Tensor& x, Activation activation);

}  // namespace gradus
