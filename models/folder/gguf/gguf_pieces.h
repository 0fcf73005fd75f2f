#pragma once
// Converts tokenizers of SentencePiece's byte pair encoding, which llama.cpp calls "llama", to and
// from the metadata of a GGUF file. Internal: no public header includes this file.

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "gradus/models/data/tokenizers/hugging_face_bpe.h"

namespace gradus::models::internal {

/// Returns whether the tokenizer merges characters and encodes unknown characters as bytes, as
/// Llama 2's does.
bool has_pieces(const HuggingFaceBPE& tokenizer);

/// Adds the entries "tokenizer.ggml.*", which describe the tokenizer, to the metadata. `vocab`, the
/// number of tokens of the model, must be at least that of the tokenizer. The tokenizer must put at
/// most one token before every text.
///
/// The entry "scores" has one number per token. llama.cpp repeatedly merges the two neighbouring
/// tokens whose concatenation is the token with the highest score. The score of a normal token is
/// therefore -i, where i is the index of the first merge that produces the token. If no merge
/// produces the token, its score is minus the number of merges. All other tokens have the score 0.
///
/// Throws Error if llama.cpp would merge two tokens that the tokenizer does not merge, if merges
/// that make the same token are not consecutive, or if the tokenizer puts a space before some texts
/// but not all.
void add_gguf_pieces(nlohmann::ordered_json& metadata, const HuggingFaceBPE& tokenizer,
                     int64_t vocab);

/// Returns the tokenizer that the metadata describe, for a model of `vocab` tokens. Throws Error if
/// the metadata are invalid or describe another number of tokens.
std::unique_ptr<Tokenizer> read_gguf_pieces(const nlohmann::ordered_json& metadata, int64_t vocab);

}  // namespace gradus::models::internal
