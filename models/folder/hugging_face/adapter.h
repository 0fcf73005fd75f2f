#pragma once
// Low-rank updates under Hugging Face's names of layers. For the library's own use: no public header
// includes this.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/hugging_face/models.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus::models::internal {

/// Updates, each with its layer's name.
using NamedUpdates = std::vector<std::pair<std::string, nn::LoraUpdate>>;

/// How the layers of one of our models are called in Hugging Face's.
struct LayerNames {
  HuggingFaceModel table;
  HeadLayout layout;
};
/// The names for a model of ours; nullopt if Hugging Face has no such kind of model.
std::optional<LayerNames> layer_names(const std::string& kind, const Fields& fields);
/// Whether save_hugging_face() could write the model.
bool is_expressible(const std::string& kind, const Fields& fields);

/// The updates under Hugging Face's names. That of a layer that joins several of theirs becomes one
/// for each: A is the same for all, B's rows are divided.
NamedUpdates split_updates(const LayerNames& names, const NamedUpdates& ours);

/// The inverse: updates of the model's layers, in their order. A layer that joins several of theirs,
/// with different A or not all updated, gets one whose rank is the sum of theirs. Names of our layers
/// are accepted as well. Throws Error if the model has no such layer or a shape does not fit.
NamedUpdates join_updates(const std::optional<LayerNames>& names, const nn::Module& model,
                          const NamedUpdates& read);

}  // namespace gradus::models::internal
