#pragma once
// Tokenizers as metadata of a GGUF file. Internal: no public header includes this file.

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models::internal {

/// Adds the keys "tokenizer.ggml...." for a model of `vocab` tokens. If there is no tokenizer, the
/// keys say so. Throws Error on a tokenizer that llama.cpp does not support, or that has more than
/// `vocab` tokens.
void add_gguf_tokenizer(nlohmann::ordered_json& metadata, const Tokenizer* tokenizer,
                        int64_t vocab);

/// Returns the tokenizer that the metadata describe, or null if they say that there is none. Throws
/// Error, naming the key, unless the tokenizer is of characters or of byte pairs and its vocabulary
/// is that of the model.
std::unique_ptr<Tokenizer> read_gguf_tokenizer(const nlohmann::ordered_json& metadata,
                                               int64_t vocab);

}  // namespace gradus::models::internal
