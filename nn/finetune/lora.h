#pragma once
// LoRA: fine-tunes linear layers by low-rank updates. Hu et al. 2021, "LoRA: Low-Rank Adaptation of
// Large Language Models", arXiv 2106.09685.

#include "gradus/nn/layers.h"

namespace gradus::nn {

/// Options of add_lora.
struct LoraOptions {
  int64_t rank = 8;    ///< r, the rank of the updates
  double alpha = 16;   ///< updates are multiplied by alpha / rank, which must be from 1e-30 to 1e30
  double dropout = 0;  ///< dropout probability of the updates' inputs, from 0 to 0.999999
  /// Regular expressions that select linear layers by name. Each must match the whole name or the
  /// end of the name after a dot, for example "attn.qkv" or "blocks.[0-3].mlp.*". If the list is
  /// empty, add_lora() selects all layers constructed with LinearOptions::hidden = true. `hidden`
  /// is true by default, and usually false for output layers.
  std::vector<std::string> layers = {};
};

/// The low-rank update (alpha / rank) B A of the weight of a linear layer, see add_lora().
struct LoraUpdate {
  Tensor a, b;     ///< the matrices A (rank, in) and B (out, rank)
  double alpha;    ///< the update is multiplied by alpha / rank
  double dropout;  ///< dropout probability of the update's input
  /// Returns alpha / rank.
  double scale() const { return alpha / static_cast<double>(a.size(0)); }
  /// Returns (alpha / rank) x A^T, with dropout of x in training mode: (..., in) -> (..., rank).
  Tensor inner(const Tensor& x) const;
  /// Returns the output of the updated layer, x weight^T + bias + (alpha / rank) (x A^T) B^T. In
  /// training mode, applies dropout to the x that is multiplied by A^T. To compute only a part of
  /// the output features, pass consecutive rows of the layer's weight and the same part of its
  /// bias; `begin` is the index of the first of these rows.
  Tensor operator()(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int64_t begin = 0) const;
  /// Returns the update of the weight, (alpha / rank) B A: (out, in).
  Tensor weight() const;
};

/// Returns layer(activation(z)) or, if `is_gated`, layer(activation(a) * b), where a and b are the
/// halves of z. `layer` must have a LoRA update. If the weight of `layer` is frozen, the input of
/// `layer` is not saved for backward, but recomputed from z.
Tensor updated_feed_forward(const Tensor& z, Activation activation, const Linear& layer,
                            bool is_gated);

/// Freezes all parameters of a trained model, including those of LoRA updates that it already has,
/// and adds a trainable low-rank update to each selected linear layer:
///   y = x W^T + bias + (alpha / rank) (x A^T) B^T
/// A (rank, in) and B (out, rank) become parameters of the layer: lora_A.weight and lora_B.weight.
/// A is initialised like the weight of a Linear, and B is 0, so the outputs do not change at first.
/// All copies of a layer get the update. The weight W may be bfloat16 or int8.
///
/// Throws Error, with nothing changed, if an option is invalid, if the rank exceeds `in` or `out`
/// of a selected layer, if no layer is selected, or if a selected layer already has an update. Also
/// throws Error if an expression in options.layers adds no layer to those that earlier expressions
/// selected.
void add_lora(Module& model, const LoraOptions& options = {});

/// Freezes all parameters of a model. Then adds, to each linear layer that `updates` names, a
/// trainable copy of the update for this name. The names are those that linear_layers() returns.
/// Ranks may differ. Each copy has the dtype of its layer's inputs.
///
/// Throws Error, with nothing changed, if `updates` is empty, or if a name is unknown, is given
/// twice or belongs to a layer that already has an update. Also throws Error if the shapes of an
/// update do not fit its layer, or if LoraOptions does not allow its rank, alpha or dropout.
void add_lora_updates(Module& model,
                      const std::vector<std::pair<std::string, LoraUpdate>>& updates);

/// Adds the product (alpha / rank) B A of each LoRA update of a model to the weight of its layer,
/// and removes the update. The parameters stay frozen. Throws Error, with nothing changed, if the
/// model has no update. Also throws Error if the weight of an updated layer is bfloat16 or int8, or
/// if it is tied, that is, has a second name in the model.
void merge_lora(Module& model);

/// Returns what model.state_dict() would return after merge_lora(), without changing the model.
/// Throws the same errors as merge_lora().
NamedTensors merged_state_dict(const Module& model);

/// Returns the name of each linear layer of a model and the shape of its weight. A layer with
/// several names is listed once, under its first name.
std::vector<std::pair<std::string, Shape>> linear_layers(const Module& model);
/// Returns the LoRA updates of a model, each with the name of its layer.
std::vector<std::pair<std::string, LoraUpdate>> lora_updates(const Module& model);

}  // namespace gradus::nn
