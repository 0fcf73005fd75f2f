#pragma once
// SentencePiece's byte pair encoding as a GGUF file's metadata: llama.cpp's "llama". For the
// library's own use: no public header includes this.

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "gradus/models/data/tokenizers/hugging_face_bpe.h"

namespace gradus::models::internal {

/// Whether the tokenizer is one of characters with byte fallback, as Llama 2's.
bool has_pieces(const HuggingFaceBPE& tokenizer);

/// Adds the keys "tokenizer.ggml...." for a model of `vocab` tokens, at least the tokenizer's. A
/// token's score is the negative rank of its first merge; llama.cpp merges any two neighbours that
/// make a token, the highest score first. Throws Error unless the merges are all such pairs, and if
/// a space is put before some texts only.
void add_gguf_pieces(nlohmann::ordered_json& metadata, const HuggingFaceBPE& tokenizer,
                     int64_t vocab);

/// The tokenizer that the metadata describe. Throws Error, naming the key.
std::unique_ptr<Tokenizer> read_gguf_pieces(const nlohmann::ordered_json& metadata, int64_t vocab);

}  // namespace gradus::models::internal
