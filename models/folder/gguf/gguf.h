#pragma once
// Saves and loads GPTs as GGUF files, the format of llama.cpp: configuration, weights and tokenizer
// in one file.
//
//   architecture  GPT
//   gpt2          learned positions, layer norms, gelu or gelu_tanh without gates, heads of size
//                 dim / heads, no qk_norm, no qkv_bias. Biases that the model lacks are written as
//                 zeros. llama.cpp computes gelu by its tanh approximation, rounded to float16.
//   llama         rotary positions (optionally scaled as in Llama 3.1), RMS norms, gated silu, with
//                 or without biases
//   qwen3         as llama, with qk_norm, without biases and without scaled rotary positions
//   qwen2         as llama, without scaled rotary positions, and with biases only in queries, keys
//                 and values; read but not written
//
//   vocabulary    tokenizer
//   gpt2          byte pairs, with the word patterns of GPT-2, Llama 3, Qwen 2 or SmolLM2
//   llama         SentencePiece's byte pairs, as in Llama 2
//   rwkv          characters. llama.cpp chooses the longest token that matches: one character,
//                 unless the text contains the name of a special or unused token.

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
  /// The chat template, and the ids of the tokens that begin and end a text if the tokenizer has
  /// them as special tokens.
  TextInfo text = {};
};

/// Writes a GPT and its tokenizer, which may be null, to a GGUF file. Replaces an existing file
/// atomically. If the model's vocabulary is larger than the tokenizer's, adds unused tokens.
///
/// `text`, which may be null, gives the chat template and the tokens that begin and end a text.
/// Without it, or without these tokens, the tokenizer's are written. GGUF has no place for the rest
/// of TextInfo, which is left out: several ids for one purpose except the first, ids that are not
/// the model's, pad_token_id, token_names and class_names.
///
/// The tables at the top of this header list the supported models and tokenizers. Windows shorter
/// than the context and the options logit_cap, bigram, token_shift, value_shortcut and
/// embedding_shortcut of GPTConfig are not supported. Throws Error, naming the problem and writing
/// nothing, if the model or the tokenizer is not supported, if the model has low-rank updates, if
/// the tokenizer has more tokens than the model, or if a weight is beyond the range of `type` or,
/// for q8_0, not finite.
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
