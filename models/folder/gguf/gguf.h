#pragma once
// Saves and loads GPTs as GGUF files, the format of llama.cpp: configuration, weights and tokenizer
// in one file.
//
//   architecture  GPT
//   gpt2          learned positions, layer norms, gelu or gelu_tanh without gates, dim / heads
//                 features per head, no qk_norm, no qkv_bias. Biases that the model lacks are
//                 written as zeros. llama.cpp rounds gelu to float16 and computes it by tanh.
//   llama         rotary positions (Llama 3.1's too), RMS norms, gated silu, with or without biases
//   qwen3         as llama, with qk_norm, without biases and without scaled rotary positions
//   qwen2         as llama, without scaled rotary positions, and with biases only in queries, keys
//                 and values; read but not written
//
//   vocabulary    tokenizer
//   gpt2          byte pairs, with the word patterns of GPT-2, Llama 3, Qwen 2 or SmolLM2
//   llama         SentencePiece's byte pairs, as in Llama 2
//   rwkv          characters. llama.cpp chooses the longest token that matches, which is one
//                 character, except where a text contains the name of a special or unused token.

#include <memory>
#include <string>

#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/gpt.h"

namespace gradus::models {

/// How matrices are stored. Vectors and position embeddings are always f32.
enum class GgufType {
  f32,   ///< float32
  f16,   ///< IEEE 754's binary16
  bf16,  ///< the upper half of a float32
  q8_0   ///< 8 bits per element, a float16 scale per 32 elements; f16 if the row length is not a
         ///< multiple of 32
};

/// The model and the tokenizer of a GGUF file.
struct GgufModel {
  GPT model;                             ///< in float32
  std::unique_ptr<Tokenizer> tokenizer;  ///< null if the file says "no_vocab"
};

/// Writes a GPT and its tokenizer, which may be null. Replaces the file atomically. If the model
/// has more tokens than the tokenizer, pads the vocabulary with unused tokens. Throws Error, naming
/// the problem and writing nothing, if the model has low-rank updates, if llama.cpp does not
/// support the model or the tokenizer, if the tokenizer has more tokens than the model, or if a
/// weight is beyond the range of `type` or, for q8_0, not finite. The tables at the top of this
/// header list what is supported. Windows shorter than the context, capped logits, bigrams, token
/// shift and shortcuts are not.
void save_gguf(const std::string& path, const GPT& model, const Tokenizer* tokenizer = nullptr,
               GgufType type = GgufType::f32);

/// Reads a GGUF file written by save_gguf or another program. Throws Error, naming the file and the
/// problem, if the file is not valid or does not match its checksum (files of other programs have
/// none), if its architecture or its tokenizer is not listed at the top of this header, if it sets
/// options that gradus does not have, or if a tensor is missing, unexpected, of the wrong shape, or
/// of a type that is not in GgufType.
GgufModel load_gguf(const std::string& path);

/// Returns whether `path` is a file (not a folder) that begins with "GGUF".
bool is_gguf(const std::string& path);

}  // namespace gradus::models
