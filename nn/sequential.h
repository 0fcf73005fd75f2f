#pragma once
// Layers one after the other.

#include "gradus/nn/module.h"

namespace gradus::nn {

/// What maps a tensor to a tensor and can be copied: a Module with such an operator(), a struct, a
/// function, a lambda.
template <class L>
concept Layer = std::copy_constructible<L> && requires(L& layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

/// Applies its layers one after the other; none: gives back its input.
///   nn::Sequential net(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1));
/// Layers that are Modules become children called by their places, as PyTorch's do: here "0" and
/// "2", so the first parameter is "0.weight". The parameters of a Module that a lambda holds can't
/// be seen from here: they are not listed and not trained.
class Sequential : public Module {
  template <class... Layers>  // one argument, a Sequential: it is copied
  static constexpr bool is_copy = sizeof...(Layers) == 1 &&
                                  (std::same_as<Layers, Sequential> && ...);

 public:
  /// Any layers, in their order; a Sequential alone is copied.
  template <class... Layers>
  requires(!is_copy<Layers...>) && (Layer<Layers> && ...) explicit Sequential(Layers... layers) {
    (add(std::move(layers)), ...);
  }
  Tensor operator()(Tensor x) const {
    for (const auto& layer : layers_) x = layer(x);
    return x;
  }
  /// How many layers there are.
  int64_t size() const { return std::ssize(layers_); }

 private:
  template <class L>
  void add(L layer) {
    if constexpr (std::derived_from<L, Module>) child(std::to_string(layers_.size()), layer);
    layers_.emplace_back(std::move(layer));
  }

  std::vector<std::function<Tensor(const Tensor&)>> layers_;
};

}  // namespace gradus::nn
