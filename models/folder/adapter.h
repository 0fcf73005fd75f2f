#pragma once
// Saves and loads the low-rank updates (LoRA) of a model as a folder in the format of Hugging
// Face's PEFT library: adapter_config.json and adapter_model.safetensors. The folder does not
// contain the weights of the model itself.

#include <string>

#include "gradus/models/folder/fields.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus::models {

///@{
/// Implement save_adapter() and load_adapter() for a model of the given kind. For a module of a
/// type without a kind, `kind` is "" and `config` is empty.
void save_adapter_files(const std::string& dir, const std::string& kind, const Fields& config,
                        const nn::Module& model);
void load_adapter_files(const std::string& dir, const std::string& kind, const Fields& config,
                        nn::Module& model);
///@}

/// Writes the model's low-rank updates, which nn::add_lora() has added, to the folder `dir`.
/// Creates the folder if needed. Throws Error if there are no updates, or if they differ in
/// dropout.
///
/// The file names each update after its layer. If Hugging Face's format can express the model's
/// configuration (see save_hugging_face()), the layers have the names of the transformers library,
/// so that PEFT can read the folder. An example is
/// base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight. If one of our layers joins
/// several layers of transformers, its update is divided into one for each. Throws Error if
/// transformers has no such layer. For all other models the layers have our own names, for example
/// base_model.model.blocks.0.attn.qkv.lora_A.weight.
template <class M>
void save_adapter(const std::string& dir, const M& model) {
  if constexpr (requires { M::kind; }) {
    typename M::Config config = model.config;
    save_adapter_files(dir, M::kind, M::fields(config), model);
  } else {
    save_adapter_files(dir, "", {}, model);
  }
}

/// Adds the low-rank updates in the folder `dir` to the model for which they were trained, and
/// freezes all other parameters. The updates may have our layer names or Hugging Face's. Throws
/// Error, naming the file and with nothing changed, if a file is missing or damaged, if a layer
/// does not exist, has different sizes or already has an update, or if the configuration requires
/// something that nn::LoraUpdate does not compute.
template <class M>
void load_adapter(const std::string& dir, M& model) {
  if constexpr (requires { M::kind; }) {
    typename M::Config config = model.config;
    load_adapter_files(dir, M::kind, M::fields(config), model);
  } else {
    load_adapter_files(dir, "", {}, model);
  }
}

}  // namespace gradus::models
