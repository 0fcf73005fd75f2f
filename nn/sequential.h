#pragma once
// Layers applied one after the other.

#include "gradus/nn/module.h"

namespace gradus::nn {

/// A copyable callable from tensor to tensor: a Module, another struct, a function, a lambda.
template <class L>
concept Layer = std::copy_constructible<L> && requires(L& layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

/// Applies its layers one after the other; an empty one returns its input.
///   nn::Sequential net(nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1));
/// Modules become children named by their index, as in PyTorch: here "0" and "2", so the first
/// parameter is "0.weight". A Module captured by a lambda is not registered: its parameters are
/// neither listed nor trained.
class Sequential : public Module {
  template <class... Layers>  // a single Sequential argument: the copy constructor
  static constexpr bool is_copy = sizeof...(Layers) == 1 &&
                                  (std::same_as<Layers, Sequential> && ...);

 public:
  /// Layers in order. A single Sequential is copied instead.
  template <class... Layers>
  requires(!is_copy<Layers...>) && (Layer<Layers> && ...) explicit Sequential(Layers... layers) {
    (add(std::move(layers)), ...);
  }
  Tensor operator()(Tensor x) const {
    for (const auto& layer : layers_) x = layer(x);
    return x;
  }
  /// Number of layers.
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
