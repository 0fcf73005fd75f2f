#pragma once
// How Hugging Face's models correspond to ours: one table per model, read when loading and saving.
// For the library's own use: no public header includes this.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/fields.h"

namespace gradus::models::internal {

/// An entry of a Hugging Face config.json that corresponds to a field of our configuration.
struct HuggingFaceKey {
  const char* key;
  const char* field;
  const char* initial;          ///< the value if the key is missing, as transformers documents it
  const char* alias = nullptr;  ///< another name of the key, read as well
  std::vector<const char*> also = {};  ///< keys written with the same value, but not read
  bool null_is_zero = false;           ///< 0 is written as null, and null read as 0
};

/// A layer (parameters `layer`.weight and `layer`.bias) or a single parameter `layer`. A * stands
/// for a number.
struct HuggingFaceLayer {
  enum Kind {
    linear,
    conv1d,  ///< a linear layer whose weight is (in, out)
    head,    ///< a linear layer or norm above the encoder, which files may lack
    /// queries and keys, whose features i and i + D/2 of a head of D rotate together; ours are 2i and
    /// 2i + 1. A third part, values, is as it is.
    rotary,
    heads,  ///< joined queries, keys and values, whose features are in our order
  };
  const char* layer;                   ///< our name
  std::vector<const char*> hf_layers;  ///< Hugging Face's names; if several, ours joins them
  Kind kind = linear;
};

/// A model of Hugging Face's; `type` is the model_type in its config.json.
struct HuggingFaceModel {
  const char* type;
  const char* kind;    ///< our kind of model
  const char* prefix;  ///< comes before the names in `layers` in files with a head
  std::vector<HuggingFaceKey> keys;
  nlohmann::json required;  ///< the only values of these keys that we support
  /// Fields of ours that have no key, and the value of each in this model.
  std::vector<std::pair<const char*, const char*>> fixed;
  std::vector<HuggingFaceLayer> layers;
  std::vector<HuggingFaceLayer> unprefixed;  ///< layers whose names never get the prefix
  std::vector<std::pair<const char*, const char*>> tied;  ///< a copy, and the tensor that it copies
  std::vector<const char*> ignored;                       ///< tensors that are not parameters
  std::vector<const char*> unsupported = {};              ///< tensors that our model lacks
  /// the transformers class that is written; nullptr: it depends on the configuration
  const char* architecture = nullptr;
  bool is_llama = false;  ///< of Llama's family: rotary positions, no biases that are zeros
};

/// The sizes by which joined queries, keys and values are split.
struct HeadLayout {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

/// A Hugging Face config.json, an object with a "model_type".
struct HuggingFaceConfig {
  std::string path;
  nlohmann::json values;
};

/// Whether this is a Hugging Face config.json, not ours.
bool is_hugging_face_config(const nlohmann::json& config);
/// The content of DIR/config.json; nullopt if it is missing or ours. Throws Error, naming the file,
/// if it is not JSON.
std::optional<HuggingFaceConfig> find_hugging_face_config(const std::string& dir);

/// The table of a configuration's model. Throws Error, naming the file, if there is none.
const HuggingFaceModel& hugging_face_model(const HuggingFaceConfig& config);
/// The table of our kind of model, for a GPT that whose form fits the fields best. Throws Error if
/// there is none.
const HuggingFaceModel& hugging_face_model(const std::string& kind, const Fields& fields);
/// Whether there is a table for our kind of model.
bool has_hugging_face_form(const std::string& kind);
/// Whether the table is that of our kind of model; BERT's also serves its classifier.
bool has_kind(const HuggingFaceModel& model, const std::string& kind);
/// Our kind of model for a configuration. Throws Error, naming the file, if there is none.
std::string kind_in(const HuggingFaceConfig& config);

/// The transformers class that wrote the configuration, such as "GPT2LMHeadModel"; "" if it is not
/// given.
std::string architecture_of(const HuggingFaceConfig& config);
inline constexpr const char* text_classifier = "BertForSequenceClassification";
inline constexpr const char* token_classifier = "BertForTokenClassification";

/// The names that one of our parameters has in Hugging Face's files.
struct HuggingFaceParameter {
  const HuggingFaceLayer* layer = nullptr;
  std::vector<std::string> names;  ///< without the prefix; if several, ours joins them
  bool has_prefix = false;         ///< whether files with a head prefix the names
  bool is_transposed = false;
};
/// The tables of Llama's family.
const HuggingFaceModel& llama();
const HuggingFaceModel& mistral();
const HuggingFaceModel& qwen2();
const HuggingFaceModel& qwen3();

/// Finds our parameter `name`, with or without the prefix: a classifier calls its encoder's
/// parameters "bert.words.weight" and so on.
std::optional<HuggingFaceParameter> find_parameter(const HuggingFaceModel& model, std::string name);
/// The number that stands for the * of `pattern` in `name` ("" without a *); nullopt if they do not
/// match.
std::optional<std::string> number_in(const std::string& pattern, const std::string& name);

}  // namespace gradus::models::internal
