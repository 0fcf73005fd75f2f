#pragma once
// Low-rank updates under the layer names of Hugging Face. Internal: no public header includes this
// file.

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
/// Returns the names for one of our models, or nullopt if Hugging Face has no model of this kind.
std::optional<LayerNames> layer_names(const std::string& kind, const Fields& fields);
/// Returns whether save_hugging_face() could write the model.
bool is_expressible(const std::string& kind, const Fields& fields);

/// Returns the updates under Hugging Face's names. If a layer of ours joins several of theirs, its
/// update becomes one update for each of them: all get the same A, and the rows of B are divided.
NamedUpdates split_updates(const LayerNames& names, const NamedUpdates& ours);

/// Returns the updates under our names, in the order of the model's layers: the inverse of
/// split_updates(). If a layer of ours joins several layers of theirs, and these have different A
/// or not all have an update, its update has the sum of their ranks. Updates with our layer names
/// are also accepted. Throws Error if the model has no such layer or a shape does not fit.
NamedUpdates join_updates(const std::optional<LayerNames>& names, const nn::Module& model,
                          const NamedUpdates& read);

}  // namespace gradus::models::internal
