#pragma once
// Activation recomputation, also called gradient checkpointing: backward runs part of the model
// again instead of keeping its intermediate tensors. This takes less memory and more time. Chen et
// al. 2016, "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

namespace core {
/// Implements recompute(f, inputs).
std::vector<Tensor> recompute_function(
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f, std::vector<Tensor> inputs);
}  // namespace core

/// Returns f(inputs), a vector of tensors, without keeping intermediate tensors of f for backward.
/// Backward runs f again to recompute these tensors. Values and gradients, including gradients of
/// tensors that f captures, are bit for bit the same as without recompute(). Inputs and outputs may
/// be undefined. Under NoGrad, recompute() only calls f.
///
/// A copy of f is kept until backward has run, so the objects that f refers to must exist until
/// then: capture models by reference and loop variables by value. Each of the two calls of f runs a
/// new copy of f, which is destroyed when the call returns. Changes to f's members and to captures
/// by value are therefore lost. f may create functions that outlive the call: hooks, backward rules
/// and the function of a recompute() inside f. Such a function must capture by value what f
/// captures by value.
///
/// The second call runs with the modes and the random numbers of the first, and must compute the
/// same values. A layer that updates its own state must check recomputing(), so as not to update
/// the state twice. Backward throws Error if the two calls record different ops, or if the shapes
/// or dtypes of an op, or its inputs that require grad, differ between the calls. Backward also
/// throws Error if one of `inputs` has been changed in place since the first call, or if a leaf or
/// a captured tensor has been changed in place since a recorded op read it.
///
/// f may itself call backward() and register_hook(). For a tensor that f did not create, only the
/// first call has an effect: in the second call, backward() does not add to the tensor's .grad, and
/// register_hook() adds no hook and returns an unused id. If f creates leaves with
/// requires_grad_(), backward adds their gradients to the .grad of the leaves that the first call
/// created.
///
/// f should return every tensor that the loss depends on, for example a penalty as a second output.
/// If the first call stores such a tensor outside f and the second call does not, backward throws
/// Error.
template <class F>
std::vector<Tensor> recompute(F f, const std::vector<Tensor>& inputs) {
  return core::recompute_function(std::move(f), inputs);
}

/// Returns f(inputs...) without keeping intermediate tensors of f for backward: backward runs f
/// again. f takes tensors as separate arguments, and returns a tensor or a vector of tensors. The
/// rules for f are those of the overload for a vector of inputs. Example:
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
