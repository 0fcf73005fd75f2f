#pragma once
// The low-rank updates of a model as a folder in PEFT's format: adapter_config.json and
// adapter_model.safetensors, without the weights that they were trained on.

#include <string>

#include "gradus/models/folder/fields.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus::models {

///@{
/// Does the work of save_adapter() and load_adapter() for a model of the given kind; "": any module,
/// without a configuration.
void save_adapter_files(const std::string& dir, const std::string& kind, const Fields& config,
                        const nn::Module& model);
void load_adapter_files(const std::string& dir, const std::string& kind, const Fields& config,
                        nn::Module& model);
///@}

/// Writes the updates that nn::add_lora() gave the model; creates DIR if needed. If
/// save_hugging_face() can write the model, layers have transformers' names, so that PEFT reads the
/// folder: base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight; a layer of ours that joins
/// several of theirs becomes one update for each. Else they have ours:
/// base_model.model.blocks.0.attn.qkv.lora_A.weight. Throws Error if there are no updates, or if they
/// differ in dropout.
template <class M>
void save_adapter(const std::string& dir, const M& model) {
  if constexpr (requires { M::kind; }) {
    typename M::Config config = model.config;
    save_adapter_files(dir, M::kind, M::fields(config), model);
  } else {
    save_adapter_files(dir, "", {}, model);
  }
}

/// Adds the updates in DIR, under transformers' names of layers or ours, to the model that they were
/// trained on and freezes its other parameters. Throws Error, naming the file, with nothing changed,
/// if it is damaged, if a layer does not exist or has other sizes, or if the configuration asks for
/// what nn::LoraUpdate does not compute.
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
