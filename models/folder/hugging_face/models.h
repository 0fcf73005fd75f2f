#pragma once
// How Hugging Face's models correspond to ours: one table per model, used for loading and saving.
// Internal: no public header includes this file.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/fields.h"

namespace gradus::models::internal {

/// An entry of a Hugging Face config.json, and the field of our configuration that corresponds to
/// it.
struct HuggingFaceKey {
  const char* key;
  const char* field;
  const char* initial;                 ///< Hugging Face's default, used if the key is missing or
                                       ///< null (but see null_is_zero)
  const char* alias = nullptr;         ///< another name of the key that is also read
  std::vector<const char*> also = {};  ///< keys that are written with the same value, but not read
  bool null_is_zero = false;           ///< null is read as 0; 0 is written as null or, for kv_heads
                                       ///< and head_dim, as the actual size
};

/// A layer, with parameters `layer`.weight and `layer`.bias, or a single parameter `layer`. A * in
/// a name stands for a number.
struct HuggingFaceLayer {
  enum Kind {
    linear,
    conv1d,  ///< a linear layer with a weight of shape (in, out)
    head,    ///< a layer or bias above the encoder; files may lack it, see HeadsInFile (weights.h)
    /// Queries and keys, or the norm of either, in Hugging Face's order of features: i and i + D/2
    /// of a head of D features rotate together. In our order, 2i and 2i + 1 do. Values, if they are
    /// joined as a third part, have the same order in both.
    rotary,
    heads,  ///< joined queries, keys and values with features in our order
  };
  const char* layer;                   ///< our name
  std::vector<const char*> hf_layers;  ///< Hugging Face's names; our layer joins them if there are
                                       ///< several
  Kind kind = linear;
};

/// The table of one model of Hugging Face. `type` is the model_type in its config.json.
struct HuggingFaceModel {
  const char* type;
  const char* kind;    ///< kind of our corresponding model, for example "gpt"
  const char* prefix;  ///< precedes the names in `layers` if the class that wrote the file has a
                       ///< head (GPT2LMHeadModel), but not if it has none (GPT2Model)
  std::vector<HuggingFaceKey> keys;
  nlohmann::json required;  ///< keys of which we support only one value, with that value
  /// Fields of ours that have no key, and their values in this model.
  std::vector<std::pair<const char*, const char*>> fixed;
  std::vector<HuggingFaceLayer> layers;
  std::vector<HuggingFaceLayer> unprefixed;  ///< layers whose names never get the prefix
  /// Tied tensors: the name of the duplicate, which is not written, and of the tensor kept, both
  /// without the prefix. In a model with its own head, "lm_head.weight" is not a duplicate.
  std::vector<std::pair<const char*, const char*>> tied;
  std::vector<const char*> ignored;           ///< names of tensors that loading does not read
  std::vector<const char*> unsupported = {};  ///< names of tensors that our model lacks, but that
                                              ///< loading would ignore as parts of a head;
                                              ///< loading a file with one throws Error
  /// The class of Hugging Face's transformers library that we write to config.json as
  /// "architectures", or null if it depends on the configuration.
  const char* architecture = nullptr;
  bool is_llama = false;  ///< of Llama's family: rotary positions; biases that our model lacks are
                          ///< not written as zeros
};

/// The sizes by which joined queries, keys and values are divided.
struct HeadLayout {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

/// A Hugging Face config.json, an object with a "model_type".
struct HuggingFaceConfig {
  std::string path;
  nlohmann::json values;
};

/// Returns whether this config.json is Hugging Face's, not ours.
bool is_hugging_face_config(const nlohmann::json& config);
/// Returns the content of DIR/config.json, or nullopt if it is missing or not Hugging Face's.
/// Throws Error, naming the file, if it is not JSON.
std::optional<HuggingFaceConfig> find_hugging_face_config(const std::string& dir);

/// Returns the HuggingFaceModel whose `type` is the configuration's model_type. Throws Error,
/// naming the file, if there is none.
const HuggingFaceModel& hugging_face_model(const HuggingFaceConfig& config);
/// Returns the table for our models of kind `kind`. For kind "gpt", the fields decide between gpt2,
/// llama, mistral, qwen2 and qwen3. Throws Error if there is no table.
const HuggingFaceModel& hugging_face_model(const std::string& kind, const Fields& fields);
/// Returns whether there is a table for our models of kind `kind`.
bool has_hugging_face_form(const std::string& kind);
/// Returns whether the table is for our models of kind `kind`. BERT's table is also for its
/// classifier.
bool has_kind(const HuggingFaceModel& model, const std::string& kind);
/// Returns the kind of our model that corresponds to a configuration, for example "gpt". Throws
/// Error, naming the file, if there is none.
std::string kind_in(const HuggingFaceConfig& config);

/// Returns the class of Hugging Face's transformers library that wrote the configuration (the first
/// of its "architectures"), for example "GPT2LMHeadModel", or "" if it is not given.
std::string architecture_of(const HuggingFaceConfig& config);
inline constexpr const char* text_classifier = "BertForSequenceClassification";
inline constexpr const char* token_classifier = "BertForTokenClassification";

/// The names of one of our parameters in Hugging Face's files.
struct HuggingFaceParameter {
  const HuggingFaceLayer* layer = nullptr;
  std::vector<std::string> names;  ///< without the prefix; our parameter joins them if there are
                                   ///< several
  bool has_prefix = false;         ///< whether HuggingFaceModel::prefix can precede the names
  bool is_transposed = false;      ///< whether Hugging Face stores it as (in, out), see
                                   ///< HuggingFaceLayer::conv1d
};
/// The tables of Llama's family.
const HuggingFaceModel& llama();
const HuggingFaceModel& mistral();
const HuggingFaceModel& qwen2();
const HuggingFaceModel& qwen3();

/// Returns Hugging Face's names of our parameter `name`, or nullopt if it has none. `name` may
/// begin with the table's prefix: a classifier calls its encoder's parameters "bert.words.weight"
/// and so on.
std::optional<HuggingFaceParameter> find_parameter(const HuggingFaceModel& model, std::string name);
/// Returns the number in `name` for which the * of `pattern` stands, or "" if the pattern has no *.
/// Returns nullopt if `name` does not match `pattern`.
std::optional<std::string> number_in(const std::string& pattern, const std::string& name);

}  // namespace gradus::models::internal
