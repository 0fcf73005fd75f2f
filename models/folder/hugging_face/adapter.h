#pragma once
// Converts low-rank updates between our layers and Hugging Face's. Internal: no public header
// includes this file.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/hugging_face/models.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus::models::internal {

/// Updates, each with the name of its layer.
using NamedUpdates = std::vector<std::pair<std::string, nn::LoraUpdate>>;

/// How Hugging Face names the layers of one of our models.
struct LayerNames {
  HuggingFaceModel table;
  HeadLayout layout;
};
/// Returns the names for one of our models, or nullopt if Hugging Face's format cannot express it.
std::optional<LayerNames> layer_names(const std::string& kind, const Fields& fields);

/// Returns the updates under Hugging Face's names. If a layer of ours joins several of theirs, its
/// update becomes one update for each of them, with the same A and some of the rows of B. The rows
/// are in Hugging Face's order. Throws Error if Hugging Face's model has no such layer.
NamedUpdates split_updates(const LayerNames& names, const NamedUpdates& ours);

/// Returns the updates under our names, in the order of the model's layers: the inverse of
/// split_updates(), but in float32. If a layer of ours joins several of Hugging Face's, the updates
/// of those layers become one. If all of those layers have updates, with the same A and alpha, the
/// rank stays the same. Otherwise it is the sum of the ranks. Updates with our layer names are also
/// accepted, and returned unchanged. Throws Error if the model has no layer of a given name, if a
/// shape does not fit, or if a layer has two updates: under our name and Hugging Face's, or with
/// and without Hugging Face's prefix.
NamedUpdates join_updates(const std::optional<LayerNames>& names, const nn::Module& model,
                          const NamedUpdates& read);

}  // namespace gradus::models::internal
