#pragma once
// Writes models as folders in the format of Hugging Face's transformers library: config.json with a
// model_type, model.safetensors with that library's parameter names, and the tokenizer's files for
// a text model or preprocessor_config.json for an image model. To read such a folder, use
// model_folder.h: all functions that read our folders also read Hugging Face's.
//
// The following models can be written if the format can express all their options, see
// save_hugging_face(). The list gives the model_type, our model and the class of transformers:
//
//   gpt2  GPT with learned positions and layer norms         (GPT2LMHeadModel)
//   llama, mistral, qwen2, qwen3                             (LlamaForCausalLM, ...)
//       GPT with rotary positions (optionally scaled as in Llama 3.1), RMS norms, gated
//       feed-forward layers, and no biases. In addition, qwen2 has biases of queries, keys and
//       values, qwen3 has qk_norm, and mistral has an attention window. qwen2 and qwen3 may also
//       have an attention window.
//   bert  Bert                                               (BertForPreTraining)
//         BertClassifier                                     (BertForSequenceClassification,
//                                                             BertForTokenClassification)
//   vit   ViT with the class token's output as features      (ViTForImageClassification, ViTModel)
//
// Our models have a single dropout probability, but a file of Hugging Face may have several: for
// hidden states, attention weights and embeddings. Writing gives all of them our value. Reading
// takes the probability for hidden states or, in Llama's family, for attention weights.

#include <string>
#include <vector>

#include "gradus/models/folder/image_info.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/folder/text_info.h"

namespace gradus::models {

/// Returns whether DIR/config.json is in Hugging Face's format. Throws Error, naming the file, if
/// it is missing or not JSON.
bool is_hugging_face(const std::string& dir);

/// What save_hugging_face() writes besides the model. Null means that there is no such part.
struct HuggingFaceParts {
  const Tokenizer* tokenizer = nullptr;  ///< for a text model
  const ImageInfo* images = nullptr;     ///< for a ViT
  const TextInfo* text = nullptr;        ///< for a text model
};

/// Implements save_hugging_face for a model of the given kind.
void save_hugging_face_files(const std::string& dir, const std::string& kind, const Fields& config,
                             const nn::Module& model, const HuggingFaceParts& parts);

/// Writes a GPT, Bert, BertClassifier or ViT as a folder that Hugging Face's transformers library
/// can load. Creates the folder if needed.
/// - The model is written as config.json and model.safetensors. A GPT without rotary positions is
///   written as GPT-2, with zeros for the biases that it lacks.
/// - A BPETokenizer is written as vocab.json and merges.txt, a WordPieceTokenizer as vocab.txt, and
///   a HuggingFaceBPE as tokenizer.json, each with a tokenizer_config.json. Any other tokenizer is
///   written as our own tokenizer.json, which transformers cannot read.
/// - An ImageInfo is written to preprocessor_config.json and config.json.
/// - A TextInfo is written to config.json, and to tokenizer_config.json if that file is written. A
///   chat template is written only if it is in Jinja.
///
/// Throws Error, with nothing written, in these cases:
/// - The format cannot express an option of the model, for example sinusoidal positions, RMS norms
///   together with learned positions, value_shortcut or mean pooling.
/// - The model has low-rank updates; call nn::merge_lora() first.
/// - The number of class names is wrong, or there is an ImageInfo but the model is not a ViT.
/// - A file in the folder would take precedence over one to be written: tokenizer.json over
///   vocab.json or vocab.txt; vocab.json and merges.txt over vocab.txt; or a chat_template.jinja
///   with another template over the TextInfo's template.
///
/// Also throws Error if a file cannot be written; the folder is then incomplete.
template <class M>
void save_hugging_face(const std::string& dir, const M& model, const HuggingFaceParts& parts = {}) {
  typename M::Config config = model.config;
  save_hugging_face_files(dir, M::kind, M::fields(config), model, parts);
}

}  // namespace gradus::models
