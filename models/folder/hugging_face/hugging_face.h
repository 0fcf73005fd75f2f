#pragma once
// Writes models as folders in the format of Hugging Face's transformers library: config.json with a
// model_type, model.safetensors with that library's parameter names, and the tokenizer's files for
// a text model or preprocessor_config.json for an image model. To read such a folder, use
// model_folder.h: all functions that read our folders also read Hugging Face's. These models can be
// written if the format can express all their options, see save_hugging_face():
//
//   gpt2  GPT with learned positions and layer norms         (GPT2LMHeadModel)
//   llama, mistral, qwen2, qwen3                             (LlamaForCausalLM, ...)
//       GPT with rotary positions (optionally scaled as in Llama 3.1), RMS norms, gated
//         feed-forward layers, and no biases except those of queries, keys and values in qwen2;
//         qwen3 with qk_norm; mistral with a window, qwen2 and qwen3 with or without a window
//   bert  Bert                                               (BertForPreTraining)
//         BertClassifier                                     (BertForSequenceClassification,
//                                                             BertForTokenClassification)
//   vit   ViT with the class token's output as features      (ViTForImageClassification, ViTModel)
//
// Our models have a single dropout probability. It is written as that of the hidden states, of the
// attention weights and of GPT-2's embeddings. Where a file has several, that of the hidden states
// is read.

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
/// can load. Creates the folder if needed. The model is written as config.json and
/// model.safetensors. A GPT without rotary positions is written as GPT-2, with zeros for biases
/// that it lacks. A BPETokenizer is written as vocab.json and merges.txt, a WordPieceTokenizer as
/// vocab.txt, and a HuggingFaceBPE as tokenizer.json, each with a tokenizer_config.json. Any other
/// tokenizer is written as our own tokenizer.json, which transformers cannot read. ImageInfo is
/// written into preprocessor_config.json and config.json, and TextInfo into config.json and, if
/// there is one, tokenizer_config.json. A chat template is written only if it is in Jinja.
///
/// Throws Error, before anything is written, if the format cannot express an option (for example
/// sinusoidal positions, RMS norms together with learned positions, value_shortcut, mean pooling),
/// if low-rank updates are not merged, if the number of class names is wrong, or if there is an
/// ImageInfo but the model is not a ViT. Also throws if the tokenizer would be written as
/// vocab.json or vocab.txt but the folder contains a tokenizer.json, because that file would be
/// read instead. An Error while a file is written leaves an incomplete folder.
template <class M>
void save_hugging_face(const std::string& dir, const M& model, const HuggingFaceParts& parts = {}) {
  typename M::Config config = model.config;
  save_hugging_face_files(dir, M::kind, M::fields(config), model, parts);
}

}  // namespace gradus::models
