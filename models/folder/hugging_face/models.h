#pragma once
// How Hugging Face's models correspond to ours: one HuggingFaceModel for each, used for loading and
// saving. Internal: no public header includes this file.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/fields.h"

namespace gradus::models::internal {

/// An entry of a Hugging Face config.json and the field of our configuration that corresponds to
/// it.
struct HuggingFaceKey {
  const char* key;
  const char* field;
  /// Hugging Face's default, used if the key is missing, or is null and null_is_zero is false.
  const char* initial;
  const char* alias = nullptr;         ///< another name of the key, which is also read
  std::vector<const char*> also = {};  ///< other keys to write with the same value; they are not
                                       ///< read
  /// If true, null is read as 0, and 0 is written as null. However, if kv_heads or head_dim is 0,
  /// its default value is written, for example the number of heads for kv_heads.
  bool null_is_zero = false;
};

/// The names of a layer in our models and in Hugging Face's. The layer's parameters are called
/// NAME.weight and NAME.bias, or NAME if the layer is a single parameter. A * in a name stands for
/// a number.
struct HuggingFaceLayer {
  enum Kind {
    linear,
    conv1d,  ///< a linear layer whose weight Hugging Face stores as (in, out)
    head,    ///< a layer or bias above the encoder; a file may lack it, see HeadsInFile (weights.h)
    /// Our layer that computes queries, keys and values, or the norm of queries or keys. In our
    /// layers, features 2i and 2i + 1 of a query or key rotate together. In Hugging Face's files,
    /// features i and i + D/2 rotate together, where D is the size of a head. The features of
    /// values are not reordered.
    rotary,
    heads,  ///< our layer that computes queries, keys and values; no features are reordered
  };
  const char* layer;                   ///< our name
  std::vector<const char*> hf_layers;  ///< Hugging Face's names; if there are several, our layer is
                                       ///< their concatenation
  Kind kind = linear;
};

/// How one of Hugging Face's models corresponds to ours. `type` is the model_type in its
/// config.json.
struct HuggingFaceModel {
  const char* type;
  const char* kind;  ///< kind of our corresponding model, for example "gpt"
  /// Prefix of the names of `layers` in files of a model with a head, for example "transformer."
  /// for GPT2LMHeadModel. In files of a model without a head (GPT2Model), the names have no prefix.
  const char* prefix;
  std::vector<HuggingFaceKey> keys;
  nlohmann::json required;  ///< keys for which our model supports only one value, and that value
  /// Fields of our configuration that config.json lacks, with their values in this model.
  std::vector<std::pair<const char*, const char*>> fixed;
  std::vector<HuggingFaceLayer> layers;
  std::vector<HuggingFaceLayer> unprefixed;  ///< layers whose names never begin with `prefix`
  /// Pairs of tied tensors, by their names without `prefix`. The first tensor of a pair duplicates
  /// the second and is not written. Exception: if our model's head is not tied, "lm_head.weight" is
  /// written as a separate tensor.
  std::vector<std::pair<const char*, const char*>> tied;
  std::vector<const char*> ignored;  ///< names of tensors that loading does not read
  /// Names of tensors that our model cannot use. Loading a file that contains one throws Error.
  std::vector<const char*> unsupported = {};
  /// The class of the transformers library to write to config.json as "architectures", or null if
  /// it depends on the configuration.
  const char* architecture = nullptr;
  /// Whether the model is of Llama's family. Models of this family have rotary positions. When a
  /// model of another family is written, zeros are added for the biases that our model lacks.
  bool is_llama = false;
};

/// Number of query heads, number of key/value heads, and size of a head. These sizes determine how
/// the rows of a layer are divided into queries, keys and values.
struct HeadLayout {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

/// The path and the content of a Hugging Face config.json, an object with a "model_type".
struct HuggingFaceConfig {
  std::string path;
  nlohmann::json values;
};

/// Returns whether the content of a config.json is in Hugging Face's format, not in ours.
bool is_hugging_face_config(const nlohmann::json& config);
/// Returns the content of DIR/config.json, or nullopt if the file is missing or in our format.
/// Throws Error, naming the file, if it is not JSON.
std::optional<HuggingFaceConfig> find_hugging_face_config(const std::string& dir);

/// Returns the HuggingFaceModel whose `type` is the configuration's model_type. Throws Error,
/// naming the file, if we support no such model.
const HuggingFaceModel& hugging_face_model(const HuggingFaceConfig& config);
/// Returns the HuggingFaceModel for our models of kind `kind`. For kind "gpt", the fields decide
/// between gpt2, llama, mistral, qwen2 and qwen3. Throws Error if Hugging Face has no such model.
const HuggingFaceModel& hugging_face_model(const std::string& kind, const Fields& fields);
/// Returns whether a HuggingFaceModel exists for our models of kind `kind`.
bool has_hugging_face_form(const std::string& kind);
/// Returns whether `model` corresponds to our models of kind `kind`. BERT's HuggingFaceModel
/// corresponds to two kinds, "bert" and "bert-classifier".
bool has_kind(const HuggingFaceModel& model, const std::string& kind);
/// Returns the kind of our model that corresponds to a configuration, for example "gpt". Throws
/// Error, naming the file, if we have no such model.
std::string kind_in(const HuggingFaceConfig& config);

/// Returns the name of the model's class in the transformers library, for example
/// "GPT2LMHeadModel": the first entry of "architectures", or "" if there is none.
std::string architecture_of(const HuggingFaceConfig& config);
inline constexpr const char* text_classifier = "BertForSequenceClassification";
inline constexpr const char* token_classifier = "BertForTokenClassification";

/// How Hugging Face's files store one of our parameters.
struct HuggingFaceParameter {
  const HuggingFaceLayer* layer = nullptr;
  /// Names of the tensors in the files, without HuggingFaceModel::prefix. If there are several, our
  /// parameter is the concatenation of these tensors.
  std::vector<std::string> names;
  bool has_prefix = false;     ///< whether the names may begin with HuggingFaceModel::prefix
  bool is_transposed = false;  ///< whether the files store the parameter transposed, as (in, out)
};
/// The models of Llama's family.
const HuggingFaceModel& llama();
const HuggingFaceModel& mistral();
const HuggingFaceModel& qwen2();
const HuggingFaceModel& qwen3();

/// Returns how Hugging Face's files store our parameter `name`, or nullopt if Hugging Face's model
/// has no such parameter. `name` may begin with model.prefix, as the names of the encoder's
/// parameters in our BertClassifier do ("bert.words.weight").
std::optional<HuggingFaceParameter> find_parameter(const HuggingFaceModel& model, std::string name);
/// Returns the number in `name` at the position of the * in `pattern`: for example "12" for the
/// pattern "h.*.ln_1" and the name "h.12.ln_1". Returns "" if the pattern has no * and equals
/// `name`. Returns nullopt if `name` does not match the pattern.
std::optional<std::string> number_in(const std::string& pattern, const std::string& name);

}  // namespace gradus::models::internal
