#pragma once
// GPTs as GGUF files, which llama.cpp reads: configuration, weights and tokenizer in one file.
//
//   architecture  GPT
//   gpt2          learned positions, layer norms, gelu or gelu_tanh. Biases that the model lacks
//                 become zeros. llama.cpp rounds gelu to float16 and computes it by tanh.
//   llama         rotary positions (also Llama 3.1's), RMS norms, gated silu, with any biases
//   qwen3         the same with qk_norm, without biases and without scaled rotary positions
//   qwen2         that of llama; is only read
//
// Tokenizers: byte pairs in the vocabulary "gpt2" (also Llama 3's, Qwen 2's and SmolLM2's words);
// SentencePiece's, as Llama 2 has it, in "llama"; characters in "rwkv", in which llama.cpp takes the longest token that matches, here always one
// character.

#include <memory>
#include <string>

#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/gpt.h"

namespace gradus::models {

/// How matrices are stored; vectors and position embeddings always as f32.
enum class GgufType {
  f32,   ///< as in memory
  f16,   ///< IEEE 754's binary16
  bf16,  ///< the upper half of a float32
  q8_0   ///< 8 bits and a float16 scale for each 32 elements of a row; f16 if rows do not divide so
};

/// A model and its tokenizer, as a GGUF file holds them.
struct GgufModel {
  GPT model;                             ///< in float32
  std::unique_ptr<Tokenizer> tokenizer;  ///< null if the file has none
};

/// Writes a GPT and its tokenizer, which may be null, and replaces the file atomically. If the
/// model has more tokens than the tokenizer, unused ones fill up the vocabulary. Throws Error,
/// naming what it is, with nothing written, on what llama.cpp's architectures do not compute:
/// sinusoidal positions, windows, capped logits, bigrams, token shift, shortcuts, combinations other
/// than above; on a tokenizer of words; and on weights that the type cannot hold.
void save_gguf(const std::string& path, const GPT& model, const Tokenizer* tokenizer = nullptr,
               GgufType type = GgufType::f32);

/// Reads a file that save_gguf or another program wrote. Throws Error, naming the file and the
/// entry, if it is damaged, if its architecture is not one of the above or has options that a GPT
/// lacks, if a tensor is missing or has another shape or a type that GgufType lacks, or if the
/// tokenizer is none of the above.
GgufModel load_gguf(const std::string& path);

/// Whether `path` is a file, not a folder, that begins as a GGUF file does.
bool is_gguf(const std::string& path);

}  // namespace gradus::models
