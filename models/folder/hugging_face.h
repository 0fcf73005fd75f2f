#pragma once
// Folders as Hugging Face's transformers writes and reads them: config.json with a model_type,
// model.safetensors with its parameters' names, the tokenizer's files or preprocessor_config.json.
// Reading one takes nothing of its own: load_model and the like (model_folder.h), load_tokenizer
// and load_image_info take such a folder for ours.
//
//   gpt2  GPT with learned positions and layer norms         (GPT2LMHeadModel)
//   bert  Bert, BertClassifier    (BertForPreTraining, ...ForSequence-, ...ForTokenClassification)
//   vit   ViT whose features are the class token's            (ViTForImageClassification, ViTModel)
//
// Of a model's dropouts theirs may differ; the one of hidden states is ours for all.

#include <string>
#include <vector>

#include "gradus/models/folder/image_info.h"
#include "gradus/models/folder/model_folder.h"

namespace gradus::models {

/// Whether DIR/config.json is one of Hugging Face's. Throws Error, naming the file, if it is
/// missing or no JSON.
bool is_hugging_face(const std::string& dir);

/// What such a folder says that has no place in one that is written anew, ours or theirs, each as
/// "FILE: KEY: VALUE": the names of a text classifier's classes, which ids and tokens begin and end a
/// GPT-2's texts unless it is <|endoftext|> of the tokenizer, and what pads them. Nothing of a folder
/// of ours. Throws Error, naming the file, on one that cannot be read.
std::vector<std::string> not_kept(const std::string& dir, const Tokenizer* tokenizer);

/// What goes into a folder beside the model.
struct HuggingFaceParts {
  const Tokenizer* tokenizer = nullptr;  ///< of a text model
  const ImageInfo* images = nullptr;     ///< of a ViT
};

/// save_hugging_face for a model of that kind.
void save_hugging_face_files(const std::string& dir, const std::string& kind, const Fields& config,
                             const nn::Module& model, const HuggingFaceParts& parts);

/// Writes a GPT, Bert, BertClassifier or ViT as transformers has it, making DIR if need be:
/// config.json, model.safetensors, and of a byte-level BPETokenizer vocab.json and merges.txt, of a
/// WordPieceTokenizer vocab.txt, with a tokenizer_config.json; another tokenizer is written as our
/// tokenizer.json, which transformers does not read. Images' means and deviations become
/// preprocessor_config.json; biases that a GPT lacks, zeros. Throws Error, before it writes, on what
/// theirs has no place for: rotary or sinusoidal positions, RMS norms, gates, shared key/value
/// heads, pooling by the mean; and where an earlier tokenizer.json would be read instead.
template <class M>
void save_hugging_face(const std::string& dir, const M& model, const HuggingFaceParts& parts = {}) {
  typename M::Config config = model.config;
  save_hugging_face_files(dir, M::kind, M::fields(config), model, parts);
}

}  // namespace gradus::models
