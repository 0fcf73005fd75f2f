#pragma once
// What each model of Hugging Face's has in common with one of ours, in one table a model that is
// read both ways. For the library's own use: no public header includes this.

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gradus/core/files/safetensors.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/module.h"

namespace gradus::models::internal {

/// A number of their configuration that is an entry of ours.
struct TheirKey {
  const char* theirs;
  const char* ours;
  const char* initial;                 ///< what a missing key means, as their documentation has it
  std::vector<const char*> also = {};  ///< keys that are written with the same value, not read
  bool null_is_zero = false;           ///< written as null where it is 0
  const char* alias = nullptr;         ///< another name that is read, and may say the same
};

/// Parameters of ours, `ours` alone or followed by .weight and .bias, and what they are to them. A
/// * is the number of a layer.
struct TheirLayer {
  enum Kind {
    linear,
    conv1d,  ///< a linear layer whose weight is (in, out)
    head,    ///< a linear layer or norm above the encoder, which files may lack
  };
  const char* ours;
  std::vector<const char*> theirs;  ///< several: ours holds them one behind the other
  Kind kind = linear;
};

/// A kind of model, by the model_type of their config.json.
struct TheirModel {
  const char* type;
  const char* kind;    ///< ours
  const char* prefix;  ///< of the names in `layers`, in files of more than the bare model
  std::vector<TheirKey> keys;
  nlohmann::json required;  ///< what these keys must have, where they are there
  std::vector<std::pair<const char*, const char*>> given;  ///< what it means for our other entries
  std::vector<TheirLayer> layers;
  std::vector<TheirLayer> outside;                            ///< the same without the prefix
  std::vector<std::pair<const char*, const char*>> repeated;  ///< a name for another's numbers
  std::vector<const char*> ignored;                           ///< names of what is no parameter
  std::vector<const char*> refused = {};                      ///< of what ours has no place for
};

/// Whether this is one of their config.json, not ours.
bool is_theirs(const nlohmann::json& config);
/// Throws Error, opening with `path`, naming those known, if it is of no model that is known.
const TheirModel& their_model(const std::string& path, const nlohmann::json& config);
/// The table for a kind of model of ours. Throws Error where there is none.
const TheirModel& their_model(const std::string& kind);
/// Our kind of model: that of the table, or of BERT with a classifier.
std::string kind_of_theirs(const std::string& path, const nlohmann::json& config);
/// Whether it is a BERT with a classifier of whole texts, which stands on the pooler.
bool is_text_classifier(const nlohmann::json& config);

/// Sets the entries of our configuration of that kind to what theirs says. Throws Error, opening
/// with `path`, on what the model can't have; then nothing has been changed.
void read_their_config(const std::string& path, const nlohmann::json& config,
                       const std::string& kind, const Fields& ours);
/// The names of the classes, by number; empty where there are none.
std::vector<std::string> their_labels(const std::string& path, const nlohmann::json& config);
/// Their config.json. Throws Error on what they can't express.
nlohmann::ordered_json their_config(const std::string& kind, const Fields& ours,
                                    const std::vector<std::string>& labels);

/// All tensors of a folder, of one file or several.
struct TheirFile {
  std::string path;
  NamedTensors tensors;
};
TheirFile read_their_weights(const std::string& dir);
/// Copies a file's tensors into a model of ours, converted to the file's dtype. `new_heads`: those
/// that the file lacks stay as they are or, if they are not `drawn`, are. Throws Error, opening with
/// the file's path and listing what is missing, unexpected or of another shape; then nothing has
/// been changed.
void load_their_weights(TheirFile file, const std::string& config_path,
                        const nlohmann::json& config, nn::Module& model, bool new_heads,
                        bool drawn);
/// A model's parameters under their names.
NamedTensors their_weights(const std::string& kind, const Fields& ours, const nn::Module& model);

}  // namespace gradus::models::internal
