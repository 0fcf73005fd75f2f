#pragma once
// Tokenizers as a GGUF file's metadata. For the library's own use: no public header includes this.

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models::internal {

/// Adds the keys "tokenizer.ggml...." for a model of `vocab` tokens; without a tokenizer, what says
/// that there is none. Throws Error on a tokenizer that llama.cpp lacks, or with more tokens.
void add_gguf_tokenizer(nlohmann::ordered_json& metadata, const Tokenizer* tokenizer,
                        int64_t vocab);

/// The tokenizer that the metadata describe, null if they say that there is none. Throws Error,
/// naming the key, unless it is of characters or of byte pairs and the model's vocabulary is its.
std::unique_ptr<Tokenizer> read_gguf_tokenizer(const nlohmann::ordered_json& metadata,
                                               int64_t vocab);

}  // namespace gradus::models::internal
