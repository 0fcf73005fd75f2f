#pragma once
// The low-rank updates of a model as a folder in PEFT's format: adapter_config.json and
// adapter_model.safetensors, without the weights that they were trained on.

#include <string>

#include "gradus/nn/finetune/lora.h"

namespace gradus::models {

/// Writes the updates that nn::add_lora() gave the model; creates DIR if needed. Tensors
/// have the names of the model's layers: base_model.model.blocks.0.attn.qkv.lora_A.weight. Throws
/// Error if there are none, or if they differ in rank, alpha or dropout.
void save_adapter(const std::string& dir, const nn::Module& model);

/// Adds the updates in DIR to the model that they were trained on and freezes its other parameters.
/// Throws Error, naming the file, with nothing changed, if it is damaged, if a layer does not exist
/// or has other sizes, or if the configuration asks for what nn::LoraUpdate does not compute.
void load_adapter(const std::string& dir, nn::Module& model);

}  // namespace gradus::models
