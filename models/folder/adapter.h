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

/// Writes a model's LoRA updates (see nn::add_lora()) to the folder `dir`. Creates the folder if
/// needed. Throws Error if the model has no updates, or if its updates differ in dropout.
///
/// Each tensor is stored under the name of its layer:
/// - If Hugging Face's format can express the model (see save_hugging_face()), the names are those
///   of the transformers library, so that PEFT can read the folder. An example is
///   base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight. If transformers divides a
///   layer into several layers, the update of the layer is divided in the same way. Throws Error if
///   transformers lacks the layer of an update.
/// - Otherwise the names are our own, for example base_model.model.blocks.0.attn.qkv.lora_A.weight.
template <class M>
void save_adapter(const std::string& dir, const M& model) {
  if constexpr (requires { M::kind; }) {
    typename M::Config config = model.config;
    save_adapter_files(dir, M::kind, M::fields(config), model);
  } else {
    save_adapter_files(dir, "", {}, model);
  }
}

/// Adds the LoRA updates in the folder `dir` to the model for which they were trained, and freezes
/// all other parameters. The folder may use our names of layers or Hugging Face's. Throws Error,
/// naming the file, and leaves the model unchanged in these cases:
/// - A file is missing or damaged.
/// - The layer of an update does not exist in the model, has other sizes, or already has an update.
/// - adapter_config.json requires something that nn::LoraUpdate does not compute, such as DoRA.
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
