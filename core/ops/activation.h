#pragma once
// Activation functions, as ops and as an option of layers.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// An activation as an option of a layer. linear and feed_forward fuse it into their pass over
/// memory.
enum class Activation { none, relu, tanh, sigmoid, gelu, gelu_tanh, silu, quick_gelu };
namespace core {
/// All of them, in the order of the enum.
inline constexpr std::array activations{
    Activation::none, Activation::relu,      Activation::tanh, Activation::sigmoid,
    Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::quick_gelu};
/// "gelu_tanh", as its op is called.
const char* name_of(Activation activation);
/// x with the activation applied.
Tensor activate(const Tensor& x, Activation activation);
}  // namespace core

/// max(x, 0); the derivative at 0 is 0.
Tensor relu(const Tensor& x);
/// (e^x - e^-x) / (e^x + e^-x)
Tensor tanh(const Tensor& x);
/// 1 / (1 + e^-x)
Tensor sigmoid(const Tensor& x);
/// x Phi(x) with Phi the normal distribution function. Hendrycks & Gimpel 2016, arXiv 1606.08415.
Tensor gelu(const Tensor& x);
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's approximation of gelu.
Tensor gelu_tanh(const Tensor& x);
/// x sigmoid(x). Elfwing et al. 2017, arXiv 1702.03118.
Tensor silu(const Tensor& x);
/// x sigmoid(1.702 x), CLIP's approximation of gelu.
Tensor quick_gelu(const Tensor& x);

/// act(a) b for the halves of x's last axis, x = [a, b]: (..., 2n) -> (..., n). With silu this is
/// the gate of SwiGLU: Shazeer 2020, arXiv 2002.05202. (torch's glu activates the other half:
/// a sigmoid(b).)
Tensor gated(const Tensor& x, Activation activation);

}  // namespace gradus
