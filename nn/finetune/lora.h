#pragma once
// LoRA: fine-tunes linear layers by low-rank updates. Hu et al. 2021, "LoRA: Low-Rank Adaptation of
// Large Language Models", arXiv 2106.09685.

#include "gradus/nn/layers.h"

namespace gradus::nn {

/// Options of add_lora.
struct LoraOptions {
  int64_t rank = 8;    ///< r, the rank of the updates
  double alpha = 16;   ///< updates are multiplied by alpha / rank, from 1e-30 to 1e30
  double dropout = 0;  ///< dropout probability of the updates' inputs, from 0 to 0.999999
  /// Regular expressions that select linear layers by name. Each must match the whole name or the
  /// end of the name after a dot, for example "attn.qkv" or "blocks.[0-3].mlp.*". If there are
  /// none, add_lora() selects all hidden layers: those constructed with LinearOptions::hidden (the
  /// default), unlike output layers.
  std::vector<std::string> layers = {};
};

/// The low-rank update of a layer.
struct LoraUpdate {
  Tensor a, b;     ///< A (rank, in) and B (out, rank), see add_lora()
  double alpha;    ///< see LoraOptions
  double dropout;  ///< see LoraOptions
  /// Returns alpha / rank.
  double scale() const { return alpha / static_cast<double>(a.size(0)); }
  /// Returns (alpha / rank) x A^T, with dropout of x in training: (..., in) -> (..., rank).
  Tensor inner(const Tensor& x) const;
  /// Returns x weight^T + bias plus the update's output. `weight` may be consecutive rows of the
  /// layer's weight, of which row `begin` is the first; `bias` must then be the same part of the
  /// layer's bias.
  Tensor operator()(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int64_t begin = 0) const;
  /// Returns the update of the weight, (alpha / rank) B A: (out, in).
  Tensor weight() const;
};

/// Returns layer(activation(z)), or layer(gated(z, activation)) if `is_gated`, for a layer with an
/// update. Keeps z for backward, which recomputes the layer's input from it.
Tensor updated_feed_forward(const Tensor& z, Activation activation, const Linear& layer,
                            bool is_gated);

/// Freezes all parameters of a trained model, including earlier updates, and adds to each selected
/// Linear layer an update that is trained instead:
///   y = x W^T + bias + (alpha / rank) (x A^T) B^T
/// A (rank, in) and B (out, rank) become parameters of the layer: lora_A.weight and lora_B.weight.
/// A is initialised like the weight of a Linear, and B is 0, so the outputs do not change at first.
/// All copies of a layer get the update. The weights W may be in bfloat16 or int8. Throws Error,
/// with nothing changed, if an option is invalid (the rank must not exceed `in` or `out` of a
/// selected layer), if no layer is selected, if an expression selects no layer or only layers that
/// earlier expressions selected, or if a selected layer already has an update.
void add_lora(Module& model, const LoraOptions& options = {});

/// Freezes all parameters and adds a copy of each given update to the linear layer of that name, to
/// be trained further. A copy has the dtype of the layer's inputs. Ranks may differ. Names are
/// those of linear_layers(). Throws Error, with nothing changed, if there is no linear layer of a
/// given name, if a layer already has an update or is given two, if the shapes of an update do not
/// fit, or if its rank, alpha or dropout is not allowed in LoraOptions.
void add_lora_updates(Module& model,
                      const std::vector<std::pair<std::string, LoraUpdate>>& updates);

/// Adds the updates to the weights, W + (alpha / rank) B A, and removes the updates. The parameters
/// stay frozen. Throws Error, with nothing changed, if there is no update, or if the weight of an
/// updated layer is compressed or has a second name in the model.
void merge_lora(Module& model);

/// Returns what model.state_dict() would return after merge_lora(), without changing the model.
/// Throws the same errors as merge_lora().
NamedTensors merged_state_dict(const Module& model);

/// Returns the name of each linear layer of a model and the shape of its weight. A layer with
/// several names is listed once, under its first name.
std::vector<std::pair<std::string, Shape>> linear_layers(const Module& model);
/// Returns the updates in a model, each with the name of its layer.
std::vector<std::pair<std::string, LoraUpdate>> lora_updates(const Module& model);

}  // namespace gradus::nn
