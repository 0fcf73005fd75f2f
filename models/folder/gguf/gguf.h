#pragma once
// Saves and loads GPTs as GGUF files, the format of llama.cpp. A file contains the configuration,
// the weights and the tokenizer.
//
// A GPT must have the options of one of these architectures of llama.cpp:
//
//   gpt2     Learned positions, layer norms, feed-forward layers with gelu or gelu_tanh and without
//            gates, head_dim = dim / heads, no qk_norm, no qkv_bias. Biases that the model lacks
//            are written as zeros. llama.cpp computes gelu by its tanh approximation, rounded to
//            float16.
//   llama    Rotary positions (optionally scaled as in Llama 3.1), RMS norms, feed-forward layers
//            with gated silu, with or without biases.
//   qwen3    The options of llama, but with qk_norm, without biases and without scaled positions.
//   qwen2    The options of llama, but with biases only in queries, keys and values and without
//            scaled positions. Files of this architecture can be loaded but not saved.
//
// A tokenizer must be of one of these kinds, named as in llama.cpp:
//
//   gpt2     Byte-level BPE with the word patterns of GPT-2, Llama 3, Qwen 2 or SmolLM2.
//   llama    SentencePiece's BPE, as in Llama 2.
//   rwkv     Characters. llama.cpp always chooses the longest token that matches the text: a
//            single character, unless the text contains the name of a special or unused token.

#include <memory>
#include <string>

#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/folder/text_info.h"
#include "gradus/models/gpt.h"

namespace gradus::models {

/// Element type of the matrices in a GGUF file. Vectors and position embeddings are always f32.
enum class GgufType {
  f32,   ///< float32
  f16,   ///< IEEE 754's binary16
  bf16,  ///< the upper half of a float32
  /// 8 bits per element, and a float16 scale per 32 elements of a row. A matrix whose row length is
  /// not a multiple of 32 is stored as f16.
  q8_0
};

/// The model, the tokenizer and the text information of a GGUF file.
struct GgufModel {
  GPT model;                             ///< in float32
  std::unique_ptr<Tokenizer> tokenizer;  ///< null if the file has none ("no_vocab")
  /// Contains only the chat template and the ids of the tokens that begin and end a text. Ids of
  /// tokens that are not special in the tokenizer are left out.
  TextInfo text = {};
};

/// Writes a GPT and its tokenizer to a GGUF file. Replaces an existing file atomically. `tokenizer`
/// may be null. If the model's vocabulary is larger than the tokenizer's, adds unused tokens.
///
/// If `text` is not null, also writes its chat template, its first "bos_token_id" and its first
/// "eos_token_id". Its other members and ids are not written. If one of the two ids is missing or
/// outside the vocabulary, writes the tokenizer's own id instead, if any. If the tokenizer puts a
/// token before every text, bos_token_id is always the id of this token.
///
/// Throws Error, which names the problem, and leaves an existing file unchanged in these cases:
/// - The model's options, or the tokenizer, are not listed at the top of this header.
/// - The attention window is shorter than the context.
/// - The model uses one of the options logit_cap, bigram, token_shift, value_shortcut and
///   embedding_shortcut of GPTConfig.
/// - The model has low-rank updates; call nn::merge_lora() first.
/// - The tokenizer has more tokens than the model.
/// - A weight is beyond the range of `type` or, for q8_0, not finite.
/// - The file cannot be written.
void save_gguf(const std::string& path, const GPT& model, const Tokenizer* tokenizer = nullptr,
               GgufType type = GgufType::f32, const TextInfo* text = nullptr);

/// Reads a GGUF file written by save_gguf or another program. Throws Error, naming the file and the
/// problem:
/// - if the file is not valid or does not match its checksum (files of other programs have none);
/// - if its architecture or tokenizer is not listed at the top of this header;
/// - if it sets options that gradus does not have;
/// - if a tensor is missing, unexpected, of the wrong shape, or of a type that is not in GgufType.
GgufModel load_gguf(const std::string& path);

/// Returns whether `path` is a file (not a folder) that begins with "GGUF".
bool is_gguf(const std::string& path);

}  // namespace gradus::models
