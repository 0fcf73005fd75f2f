#pragma once
// Saves and loads a trained model as a folder: model.safetensors (the weights), config.json (the
// model's kind and configuration), and tokenizer.json and optionally text.json (text_info.h) for a
// text model, or images.json (image_info.h) for an image model. Every model of this form can be
// saved and loaded:
//
//   struct GPT : nn::Module {
//     using Config = GPTConfig;
//     static constexpr const char* kind = "gpt";
//     static Fields fields(GPTConfig& config);  // the configuration's fields
//     const GPTConfig config;
//     explicit GPT(const GPTConfig& config);    // throws Error if it is invalid
//     ...
//   };
//
// All functions that read our folders also read Hugging Face folders, whose config.json has a
// model_type (gpt2, llama, mistral, qwen2, qwen3, bert or vit). hugging_face.h writes such folders.

#include <functional>
#include <optional>
#include <string>

#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/module.h"

namespace gradus::models {

///@{
/// Return the path of a folder's config.json, weights or tokenizer.
std::string config_path(const std::string& dir);
std::string weights_path(const std::string& dir);
std::string tokenizer_path(const std::string& dir);
///@}

/// Writes the weights and the configuration of a model of the given kind to the folder `dir`.
/// Creates the folder if needed. Throws Error, with nothing written, if the model has low-rank
/// updates.
void save_model_files(const std::string& dir, std::string kind, const Fields& config,
                      const nn::Module& model);
/// Writes a model to the folder `dir`: its kind, its configuration and its state dict, `state`.
/// Creates the folder if needed.
void save_model_files(const std::string& dir, std::string kind, const Fields& config,
                      const NamedTensors& state);
/// Writes only the configuration of a model of the given kind to the folder `dir`, without weights.
/// Creates the folder if needed.
void save_config(const std::string& dir, std::string kind, const Fields& config);
/// Returns the kind of the model in the folder `dir`, for example "gpt". Throws Error, naming the
/// file, if config.json is missing or does not name the kind.
std::string model_kind(const std::string& dir);
/// Throws Error, naming the file, unless the model in the folder `dir` is of this kind.
void expect_kind(const std::string& dir, const std::string& kind);
/// Sets the fields from DIR/config.json. Throws Error, naming the file, unless the model is of this
/// kind and its configuration fits the fields.
void read_config(const std::string& dir, const std::string& kind, const Fields& config);
struct LoadOptions {
  /// Whether to accept a Hugging Face folder that lacks layers above the encoder: BERT's pooler,
  /// and the heads of BERT and ViT. Missing layers get initial values in a new model and keep their
  /// values in an existing model. A head for another number of classes always throws Error. If
  /// new_heads is false, a missing layer throws Error, with three exceptions for a BertClassifier:
  /// - the pre-training heads of its encoder may always be missing;
  /// - its own head may be missing if the folder does not contain a classifier;
  /// - its pooler may be missing if the folder does not contain a classifier of whole texts.
  /// The entry "architectures" in config.json says what a folder contains.
  bool new_heads = false;
};
/// Creates a module by calling make(), and loads the weights in the folder `dir` into it. The
/// module gets the dtype of the weights, or float32 if they are F16 or BF16. While make() runs,
/// parameters get zeros instead of random initial values (see Module::param). Throws Error, naming
/// the file, if the weights are missing or damaged, or do not fit the module.
///
/// Also throws Error if the module's parameters would have too many elements, so that a damaged
/// configuration does not allocate much memory. The limit is 65/64 times the number of elements in
/// the weights file or, for a Hugging Face folder, twice that number plus 1,000,000. Buffers, such
/// as tables of positions, are not counted.
void load_weights(const std::string& dir, const std::function<nn::Module&()>& make,
                  const LoadOptions& options = {});

/// Loads the weights in the folder `dir` into an existing model. The model gets the dtype of the
/// weights, or float32 if they are F16 or BF16. Throws Error, naming the file, if they do not fit
/// the model. If a shape differs from the model's, nothing is changed. After any other error, the
/// model may already have the new dtype.
void load_weights(const std::string& dir, nn::Module& model, const LoadOptions& options = {});

/// Returns the configuration of a model of type M, read from DIR/config.json. Throws Error, naming
/// the file, unless the folder contains a valid configuration of such a model.
template <class M>
typename M::Config load_config(const std::string& dir) {
  typename M::Config config;
  read_config(dir, M::kind, M::fields(config));
  return config;
}

/// Writes the model and, if `tokenizer` is not null, the tokenizer to the folder `dir`. Creates the
/// folder if needed. Throws Error, with nothing written, if the model has low-rank updates: call
/// nn::merge_lora() first, or save_adapter() instead.
template <class M>
void save_model(const std::string& dir, const M& model, const Tokenizer* tokenizer = nullptr) {
  typename M::Config config = model.config;
  save_model_files(dir, M::kind, M::fields(config), model);
  if (tokenizer) tokenizer->save(tokenizer_path(dir));
}

/// Returns the model of type M in the folder `dir`. Throws Error, naming the file, if the
/// configuration or the weights are missing or damaged, if the model is of another kind, or if the
/// weights do not fit the configuration.
template <class M>
M load_model(const std::string& dir, const LoadOptions& options = {}) {
  const typename M::Config config = load_config<M>(dir);
  std::optional<M> model;
  load_weights(
      dir, [&]() -> nn::Module& { return model.emplace(config); }, options);
  return std::move(*model);
}

}  // namespace gradus::models
