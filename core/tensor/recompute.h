#pragma once
// Recomputed activations: backward runs a part of the model again instead of keeping its
// intermediate tensors. This takes less memory and more time. Chen et al. 2016, "Training Deep Nets
// with Sublinear Memory Cost", arXiv 1604.06174.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

namespace core {
/// Implements recompute(f, inputs).
std::vector<Tensor> recompute_function(
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f, std::vector<Tensor> inputs);
}  // namespace core

/// Returns f(inputs), a vector of tensors, without keeping intermediate tensors of f for backward.
/// Backward runs f again when it needs them. Values and gradients are bit for bit the same as those
/// of f(inputs), also for tensors that f captures. Inputs and outputs may be undefined. Under
/// NoGrad this is a call of f.
///
/// A copy of f is kept until backward has run, so what f refers to must live as long: capture
/// models by reference and loop variables by value. The second call of f gets the modes and the
/// random numbers of the first. f must compute the same again. Backward throws Error if f calls
/// other ops, gets other shapes or other captured tensors, or if a tensor that f reads has been
/// changed in place since the first call. A layer that updates its own state must check
/// recomputing().
template <class F>
std::vector<Tensor> recompute(F f, const std::vector<Tensor>& inputs) {
  return core::recompute_function(std::move(f), inputs);
}

/// Returns f(inputs...) like recompute above. f takes tensors and returns a tensor or a vector of
/// tensors. Example:
///   Tensor y = recompute([&](const Tensor& x) { return block(x); }, x);
template <class F, std::same_as<Tensor>... Inputs>
auto recompute(F f, const Inputs&... inputs) {
  constexpr bool returns_one =
      std::convertible_to<std::invoke_result_t<F&, const Inputs&...>, Tensor>;
  auto call = [f = std::move(f)](const std::vector<Tensor>& in) mutable {
    return [&]<size_t... i>(std::index_sequence<i...>)->std::vector<Tensor> {
      if constexpr (returns_one)
        return {f(in[i]...)};
      else
        return f(in[i]...);
    }
    (std::index_sequence_for<Inputs...>());
  };
  std::vector<Tensor> outputs = core::recompute_function(std::move(call), {inputs...});
  if constexpr (returns_one)
    return std::move(outputs[0]);
  else
    return outputs;
}

}  // namespace gradus
