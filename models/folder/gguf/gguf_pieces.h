#pragma once
// Converts tokenizers of SentencePiece's byte pair encoding, which llama.cpp calls "llama", to and
// from the metadata of a GGUF file. Internal: no public header includes this file.

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "gradus/models/data/tokenizers/hugging_face_bpe.h"

namespace gradus::models::internal {

/// Returns whether the tokenizer merges characters and falls back to bytes, as Llama 2's does.
bool has_pieces(const HuggingFaceBPE& tokenizer);

/// Adds the keys "tokenizer.ggml.*" for a model of `vocab` tokens, at least as many as the
/// tokenizer has. A normal token's score is minus the index of the first merge that makes this
/// token, or minus the number of merges if no merge makes it; the score of other tokens is 0.
/// llama.cpp merges any two neighbours whose concatenation is a token, the highest score first.
/// Throws Error if llama.cpp would merge two tokens that the tokenizer does not merge, if merges
/// that make the same token are not consecutive, or if the tokenizer puts a space before some texts
/// only, or several tokens before every text.
void add_gguf_pieces(nlohmann::ordered_json& metadata, const HuggingFaceBPE& tokenizer,
                     int64_t vocab);

/// Returns the tokenizer that the metadata describe, for a model of `vocab` tokens. Throws Error if
/// the metadata are invalid or describe another number of tokens.
std::unique_ptr<Tokenizer> read_gguf_pieces(const nlohmann::ordered_json& metadata, int64_t vocab);

}  // namespace gradus::models::internal
