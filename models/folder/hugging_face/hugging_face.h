#pragma once
// Folders in the format of Hugging Face's transformers: config.json with a model_type,
// model.safetensors with transformers' parameter names, and the tokenizer's files or
// preprocessor_config.json. Reading needs nothing from here: load_model and the rest of
// model_folder.h, load_tokenizer and load_image_info accept both formats.
//
//   gpt2  GPT with learned positions and layer norms         (GPT2LMHeadModel)
//   llama, mistral, qwen2, qwen3                             (LlamaForCausalLM, ...)
//         GPT with rotary positions, RMS norms, gated feed-forward layers and no biases; with
//         scaled rotary positions as Llama 3.1's; mistral with a window, qwen2 with biases of
//         queries, keys and values, qwen3 with qk_norm
//   bert  Bert                                               (BertForPreTraining)
//         BertClassifier                                     (BertForSequenceClassification,
//                                                             BertForTokenClassification)
//   vit   ViT whose features are the class token's           (ViTForImageClassification, ViTModel)
//
// Where transformers has several dropout probabilities, the one of hidden states is used for all.

#include <string>
#include <vector>

#include "gradus/models/folder/image_info.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/folder/text_info.h"

namespace gradus::models {

/// Whether DIR/config.json is Hugging Face's. Throws Error, naming the file, if it is missing or
/// not JSON.
bool is_hugging_face(const std::string& dir);

/// What goes into a folder besides the model.
struct HuggingFaceParts {
  const Tokenizer* tokenizer = nullptr;  ///< of a text model
  const ImageInfo* images = nullptr;     ///< of a ViT
  const TextInfo* text = nullptr;        ///< of a text model
};

/// Does the work of save_hugging_face for a model of the given kind.
void save_hugging_face_files(const std::string& dir, const std::string& kind, const Fields& config,
                             const nn::Module& model, const HuggingFaceParts& parts);

/// Writes a GPT, Bert, BertClassifier or ViT in transformers' format and creates DIR if needed:
/// config.json and model.safetensors; for a byte-level BPETokenizer vocab.json and merges.txt, for
/// a WordPieceTokenizer vocab.txt, for a HuggingFaceBPE tokenizer.json, each with a
/// tokenizer_config.json; for another tokenizer our tokenizer.json, which transformers does not read.
/// ImageInfo becomes preprocessor_config.json; TextInfo goes into config.json and
/// tokenizer_config.json.
/// A GPT with rotary positions is written in the form of Llama's family that fits it, any other as a
/// GPT-2, in which biases that it lacks become zeros. Throws Error, before it writes, on what the
/// format cannot express (sinusoidal positions, RMS norms beside learned positions, shortcuts, mean
/// pooling), and if DIR holds a tokenizer.json, which would be read instead.
template <class M>
void save_hugging_face(const std::string& dir, const M& model, const HuggingFaceParts& parts = {}) {
  typename M::Config config = model.config;
  save_hugging_face_files(dir, M::kind, M::fields(config), model, parts);
}

}  // namespace gradus::models
