#pragma once
// Saves and loads the low-rank updates (LoRA) of a model as a folder in the format of Hugging
// Face's PEFT library: adapter_config.json and adapter_model.safetensors. The folder does not
// contain the weights for which the updates were trained.

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

/// Writes the updates that nn::add_lora() added to the model. Creates DIR if needed. If Hugging
/// Face's format can express the model's configuration (see save_hugging_face()), the layers have
/// the names of Hugging Face's transformers library, so that PEFT can read the folder, for example
/// base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight. If a layer of ours joins several
/// layers of that library, its update is divided into one update for each. All other models keep
/// the layer names of this library, for example
/// base_model.model.blocks.0.attn.qkv.lora_A.weight. Throws Error if there are no updates, if they
/// differ in dropout, or if Hugging Face's model lacks a layer that has an update.
template <class M>
void save_adapter(const std::string& dir, const M& model) {
  if constexpr (requires { M::kind; }) {
    typename M::Config config = model.config;
    save_adapter_files(dir, M::kind, M::fields(config), model);
  } else {
    save_adapter_files(dir, "", {}, model);
  }
}

/// Adds the updates in DIR to the model for which they were trained, and freezes all other
/// parameters. Layers may have the names of this library or of Hugging Face's. Throws Error, with
/// nothing changed, if a file is missing or damaged, if a layer does not exist, has different sizes
/// or already has an update, or if the configuration requires something that nn::LoraUpdate does
/// not compute. The message names the file.
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
