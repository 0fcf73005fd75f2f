#pragma once
// Converts low-rank updates (LoRA) between the layers of our models and those of Hugging Face's.
// Internal: no public header includes this file.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/hugging_face/models.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus::models::internal {

/// Low-rank updates, each with the name of the layer that it changes.
using NamedUpdates = std::vector<std::pair<std::string, nn::LoraUpdate>>;

/// How Hugging Face names the layers of one of our models.
struct LayerNames {
  HuggingFaceModel table;
  HeadLayout layout;
};
/// Returns Hugging Face's names for the layers of our model of the given kind and configuration.
/// Returns nullopt if Hugging Face's format cannot express the model.
std::optional<LayerNames> layer_names(const std::string& kind, const Fields& fields);

/// Converts updates of our layers to updates of Hugging Face's layers, under Hugging Face's names.
/// If one of our layers (such as attn.qkv) corresponds to several of Hugging Face's, each of those
/// gets the same A and its own rows of B. For rotary queries and keys, B's rows are put in Hugging
/// Face's order. Throws Error if Hugging Face's model lacks the layer of an update.
NamedUpdates split_updates(const LayerNames& names, const NamedUpdates& ours);

/// Converts the updates in `read`, from Hugging Face's layers to ours: the inverse of
/// split_updates(). Returns them in the order of the model's layers. Converted updates are in
/// float32. Updates that already have our layer names are returned unchanged. If `names` is
/// nullopt, all updates must have our layer names.
///
/// If one of our layers corresponds to several of Hugging Face's, their updates become one. If all
/// of these layers have updates with the same A and alpha, the rank stays the same. Otherwise the
/// new rank is the sum of the ranks.
///
/// Throws Error if the model has no layer of a given name, if a shape does not fit, or if two
/// updates are for the same layer (for example one under our name and one under Hugging Face's, or
/// one with and one without Hugging Face's prefix).
NamedUpdates join_updates(const std::optional<LayerNames>& names, const nn::Module& model,
                          const NamedUpdates& read);

}  // namespace gradus::models::internal
