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
/// Returns the names for our model of the given kind and configuration, or nullopt if Hugging
/// Face's format cannot express it.
std::optional<LayerNames> layer_names(const std::string& kind, const Fields& fields);

/// Converts updates of our layers to updates of Hugging Face's, with their names. If one of our
/// layers joins several of Hugging Face's, its update becomes one for each of them, with the same A
/// and some of the rows of B. These rows are in Hugging Face's order. Throws Error if Hugging
/// Face's model has no such layer.
NamedUpdates split_updates(const LayerNames& names, const NamedUpdates& ours);

/// Converts updates of Hugging Face's layers to updates of ours, in float32 and in the order of the
/// model's layers. This is the inverse of split_updates(). Updates that already have our layer
/// names are returned unchanged.
///
/// If one of our layers joins several of Hugging Face's, their updates become one. If all of these
/// layers have updates with the same A and alpha, the joined update has the same rank. Otherwise
/// its rank is the sum of theirs.
///
/// Throws Error if the model has no layer of a given name, if a shape does not fit, or if a layer
/// has two updates. For example, one may have our name and the other Hugging Face's, or only one
/// may have Hugging Face's prefix.
NamedUpdates join_updates(const std::optional<LayerNames>& names, const nn::Module& model,
                          const NamedUpdates& read);

}  // namespace gradus::models::internal
