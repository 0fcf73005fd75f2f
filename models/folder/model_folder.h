#pragma once
// A trained model as a folder: model.safetensors (the weights), config.json (its kind and
// configuration) and, of a text model, tokenizer.json, of a model of images, images.json
// (image_info.h). Any model that has these can be saved and loaded:
//
//   struct GPT : nn::Module {
//     using Config = GPTConfig;
//     static constexpr const char* kind = "gpt";
//     static Fields fields(GPTConfig& config);  // the configuration's entries
//     const GPTConfig config;
//     explicit GPT(const GPTConfig& config);    // throws Error on one that makes no model
//     ...
//   };
//
// What reads a folder of ours also takes one of Hugging Face's as it is, whose config.json has a
// model_type (gpt2, bert or vit); hugging_face.h writes such folders.

#include <functional>
#include <optional>
#include <string>

#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/module.h"

namespace gradus::models {

///@{
/// The path of a folder's config.json, weights or tokenizer.
std::string config_path(const std::string& dir);
std::string weights_path(const std::string& dir);
std::string tokenizer_path(const std::string& dir);
///@}

/// Writes the weights and the configuration of a model of that kind, making DIR if need be.
void save_model_files(const std::string& dir, std::string kind, const Fields& config,
                      const nn::Module& model);
/// Our name of the kind of model in DIR/config.json. Throws Error, naming the file, if it has none.
std::string model_kind(const std::string& dir);
/// Throws Error, naming the file, if it is another kind.
void expect_kind(const std::string& dir, const std::string& kind);
/// Sets the entries to what DIR/config.json says. Throws Error, naming the file, unless it is that
/// of a model of that kind and fits the entries.
void read_config(const std::string& dir, const std::string& kind, const Fields& config);
struct LoadOptions {
  /// Of a folder of Hugging Face's: what it lacks above the encoder (BERT's pooler, the heads of
  /// BERT and ViT) is drawn anew, or stays as it is in a model that exists, instead of an Error.
  /// A BertClassifier on a folder without a classifier needs no leave.
  bool new_heads = false;
};
/// Calls `make` and loads DIR's weights into the module that it returns, converted to their dtype.
/// While the model is made its initialisers draw nothing, and throw Error where they ask for more
/// numbers than the file holds (twice as many, if it is one of theirs): a damaged configuration
/// sets no memory aside. Throws Error, naming the file, on what does not fit.
void load_weights(const std::string& dir, const std::function<nn::Module&()>& make,
                  const LoadOptions& options = {});

/// Loads DIR/model.safetensors into a model that exists, converted to the weights' dtype. Throws
/// Error, naming the file, on what does not fit.
void load_weights(const std::string& dir, nn::Module& model, const LoadOptions& options = {});

/// The configuration in DIR/config.json of a model of type M.
template <class M>
typename M::Config load_config(const std::string& dir) {
  typename M::Config config;
  read_config(dir, M::kind, M::fields(config));
  return config;
}

/// Writes the model, and the tokenizer if there is one, making DIR if need be.
template <class M>
void save_model(const std::string& dir, const M& model, const Tokenizer* tokenizer = nullptr) {
  typename M::Config config = model.config;
  save_model_files(dir, M::kind, M::fields(config), model);
  if (tokenizer) tokenizer->save(tokenizer_path(dir));
}

/// Reads a model of type M. Throws Error naming the file if one is missing, damaged, of another
/// kind of model, or does not fit the other.
template <class M>
M load_model(const std::string& dir, const LoadOptions& options = {}) {
  const typename M::Config config = load_config<M>(dir);
  std::optional<M> model;
  load_weights(
      dir, [&]() -> nn::Module& { return model.emplace(config); }, options);
  return std::move(*model);
}

}  // namespace gradus::models
