#pragma once
// GPTs as GGUF files, the format of llama.cpp: configuration, weights and tokenizer in one file.
//
//   architecture  GPT
//   gpt2          learned positions, layer norms, gelu or gelu_tanh. Biases that the model lacks
//                 are written as zeros. llama.cpp rounds gelu to float16 and computes it by tanh.
//   llama         rotary positions (Llama 3.1's too), RMS norms, gated silu, with or without biases
//   qwen3         like llama, with qk_norm, without biases and without scaled rotary positions
//   qwen2         like llama; read but not written
//
// Tokenizers of byte pairs have the vocabulary "gpt2" (with the word patterns of GPT-2, Llama 3,
// Qwen 2 or SmolLM2). SentencePiece's tokenizer of Llama 2 has "llama". Tokenizers of characters
// have the vocabulary "rwkv". There llama.cpp takes the longest token that matches, which is always
// one character.

#include <memory>
#include <string>

#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/gpt.h"

namespace gradus::models {

/// How matrices are stored. Vectors and position embeddings are always f32.
enum class GgufType {
  f32,   ///< unchanged
  f16,   ///< IEEE 754's binary16
  bf16,  ///< the upper half of a float32
  q8_0   ///< 8 bits per element, a float16 scale per 32 elements of a row; otherwise f16
};

/// The model and the tokenizer of a GGUF file.
struct GgufModel {
  GPT model;                             ///< in float32
  std::unique_ptr<Tokenizer> tokenizer;  ///< null if the file has none
};

/// Writes a GPT and its tokenizer, which may be null. Replaces the file atomically. If the model
/// has more tokens than the tokenizer, the vocabulary is filled with unused tokens. Throws Error,
/// with nothing written, on anything that llama.cpp's architectures do not support: sinusoidal
/// positions, windows, capped logits, bigrams, token shift, shortcuts, and combinations of options
/// that are not listed above. Also throws on a tokenizer of words, and on weights that the type
/// cannot hold. The message names the problem.
void save_gguf(const std::string& path, const GPT& model, const Tokenizer* tokenizer = nullptr,
               GgufType type = GgufType::f32);

/// Reads a file that save_gguf or another program wrote. Throws Error, naming the file and the
/// entry, if the file is damaged, if its architecture is not listed above or has options that a GPT
/// lacks, or if the tokenizer is none of the above. Also throws if a tensor
/// is missing, has another shape, or has a type that is not in GgufType.
GgufModel load_gguf(const std::string& path);

/// Returns whether `path` is a file (not a folder) that starts like a GGUF file.
bool is_gguf(const std::string& path);

}  // namespace gradus::models
