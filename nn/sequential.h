#pragma once
// Layers applied one after the other, and stacks of layers whose activations can be recomputed in
// backward.

#include <algorithm>
#include <optional>

#include "gradus/core/tensor/recompute.h"
#include "gradus/nn/module.h"

namespace gradus::nn {

/// A copyable callable from tensor to tensor: a Module, another struct, a function or a lambda.
template <class L>
concept Layer = std::copy_constructible<L> && requires(L& layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

/// Applies its layers one after the other. Without layers it returns its input. Example:
///   nn::Sequential net{nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1)};
/// Braces are required; parentheses do not compile. C++ evaluates braces from left to right, so
/// layers draw their weights in the order written. Arguments in parentheses may be evaluated in any
/// order: the same seed would give different nets with different compilers.
/// Modules become children named by their index, as in PyTorch. In the example the names are "0"
/// and "2", and the first parameter is "0.weight". A Module captured by a lambda is not registered:
/// its parameters are neither listed nor trained.
class Sequential : public Module {
 public:
  /// A layer of any type.
  class Item {
   public:
    /// Wraps a layer, which Sequential calls as layer(x).
    template <class L>
    requires(!std::same_as<L, Item>) && Layer<L> Item(L layer) {
      if constexpr (std::derived_from<L, Module>) module_.emplace(layer);
      apply_ = std::move(layer);
    }

   private:
    friend class Sequential;
    std::function<Tensor(const Tensor&)> apply_;
    std::optional<Module> module_;
  };

  Sequential() = default;
  /// Makes a net of the layers in order. If the only layer is a Sequential, copies the layers of
  /// that Sequential instead.
  explicit Sequential(std::initializer_list<Item> layers) {
    // Sequential{other} must copy `other`, but some compilers call this constructor, not the copy
    // constructor.
    const bool one = layers.size() == 1;
    if (const auto* other = one ? layers.begin()->apply_.target<Sequential>() : nullptr)
      for (const Item& layer : other->layers_) add(layer);
    else
      for (const Item& layer : layers) add(layer);
  }
  Tensor operator()(Tensor x) const {
    for (const Item& layer : layers_) x = layer.apply_(x);
    return x;
  }
  /// Returns the number of layers.
  int64_t size() const { return std::ssize(layers_); }

 private:
  void add(const Item& layer) {
    if (layer.module_) child(std::to_string(layers_.size()), *layer.module_);
    layers_.push_back(layer);
  }

  std::vector<Item> layers_;
};

/// Calls layer(i, state) for i from 0 to `layers` - 1, and returns the final state. `state` holds
/// the tensors that pass from layer to layer; each call replaces them by the layer's outputs. If
/// `group` > 0, backward recomputes the activations of `group` layers at a time, see recompute().
/// Everything that `layer` refers to must then live until backward has run. Throws Error if `group`
/// is negative.
template <std::invocable<size_t, std::vector<Tensor>&> Apply>
std::vector<Tensor> run_stack(size_t layers, int64_t group, std::vector<Tensor> state,
                              const Apply& layer) {
  core::check(group >= 0, "recompute: expected 0 or more layers at a time, got ", group);
  const size_t step = group == 0 ? layers : static_cast<size_t>(group);
  for (size_t begin = 0; begin < layers; begin += std::min(step, layers - begin)) {
    const size_t end = begin + std::min(step, layers - begin);
    auto run = [=](std::vector<Tensor> x) {
      for (size_t i = begin; i < end; ++i) layer(i, x);
      return x;
    };
    state = group == 0 ? run(std::move(state)) : recompute(run, state);
  }
  return state;
}

/// Applies transformer blocks to x (B, T, dim), one after another. Each block gets the attention
/// mask `mask`. If `group` > 0, backward recomputes the activations of `group` blocks at a time,
/// and the blocks must live until backward has run; see run_stack().
template <class Block>
Tensor apply_blocks(const std::vector<Block>& blocks, int64_t group, const Tensor& x,
                    const Tensor& mask = {}) {
  const auto apply = [&blocks, mask](size_t i, std::vector<Tensor>& state) {
    state[0] = blocks[i](state[0], mask);
  };
  return run_stack(blocks.size(), group, {x}, apply)[0];
}

}  // namespace gradus::nn
