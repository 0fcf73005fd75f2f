#pragma once
// LoRA: fine-tuning by low-rank updates of linear layers. Hu et al. 2021, "LoRA: Low-Rank Adaptation
// of Large Language Models", arXiv 2106.09685.

#include "gradus/nn/layers.h"

namespace gradus::nn {

/// Options of add_lora.
struct LoraOptions {
  int64_t rank = 8;    ///< r, the rank of the updates
  double alpha = 16;   ///< updates are multiplied by alpha / rank
  double dropout = 0;  ///< of the updates' inputs, in training
  /// Which linear layers: regular expressions that match a name or its ending after a dot, such as
  /// "attn.qkv" or "blocks.[0-3].mlp.*". Empty: all hidden layers, that is without a model's output.
  std::vector<std::string> layers = {};
};

/// A layer's update.
struct LoraUpdate {
  Tensor a, b;     ///< (rank, in), (out, rank)
  double alpha;    ///< as in LoraOptions
  double dropout;  ///< as in LoraOptions
  /// alpha / rank.
  double scale() const { return alpha / static_cast<double>(a.size(0)); }
  /// (alpha / rank) x A^T, of x with dropout in training: (..., in) -> (..., rank).
  Tensor inner(const Tensor& x) const;
  /// x weight^T + bias + the update, whose rows from `begin` on are those of the weight.
  Tensor operator()(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int64_t begin = 0) const;
  /// The update of the weight, (out, in).
  Tensor weight() const;
};

/// layer(activation(z)), or layer(gated(z, activation)), of a layer with an update. Keeps z for
/// backward, which computes the layer's input again.
Tensor updated_feed_forward(const Tensor& z, Activation activation, const Linear& layer,
                            bool is_gated);

/// Freezes all parameters of a finished model and adds to each of the chosen Linear layers an update
/// that is trained instead:
///   y = x W^T + bias + (alpha / rank) (x A^T) B^T
/// A (rank, in) and B (out, rank) are parameters of the layer, lora_A.weight and lora_B.weight. A is
/// initialised as a Linear's weight and B is 0: the outputs do not change at first. All copies of a
/// layer get the update. The weights W may be in bfloat16 or int8. Throws Error, with nothing
/// changed, if an option is invalid, an expression matches no layer, or a layer has an update.
void add_lora(Module& model, const LoraOptions& options = {});

/// Freezes all parameters and adds finished updates, each to the layer of its name; their ranks may
/// differ. Throws Error, with nothing changed, if the model has no such layer, if it has an update
/// already, or if an update's shapes do not fit.
void add_lora_updates(Module& model,
                      const std::vector<std::pair<std::string, LoraUpdate>>& updates);

/// Adds the updates to the weights, W + (alpha / rank) B A, rounded once, and removes them. The
/// parameters stay frozen. Throws Error, with nothing changed, if there is no update, or if a weight
/// is compressed or shared with another layer.
void merge_lora(Module& model);

/// As model.state_dict() would be after merge_lora(), which throws the same errors; the model does
/// not change.
NamedTensors merged_state_dict(const Module& model);

/// The updates in a model, each with its layer's name.
std::vector<std::pair<std::string, LoraUpdate>> lora_updates(const Module& model);

}  // namespace gradus::nn
