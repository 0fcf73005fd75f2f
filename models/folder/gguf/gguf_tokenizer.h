#pragma once
// Tokenizers as a GGUF file's metadata. For the library's own use: no public header includes this.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models::internal {

/// The values of "tokenizer.ggml.token_type".
enum TokenType { normal = 1, unknown_token, control, user_defined, unused, byte };

/// A key of the metadata: "tokenizer.ggml.KEY".
std::string in_ggml(const char* key);

/// A vocabulary as the metadata have it.
struct Vocabulary {
  std::string model, pre = {};  // pre: the rule that splits a text into words
  std::vector<std::string> tokens = {}, merges = {};
  std::vector<int> types = {};

  void add(std::string token, TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
  /// The tokens of a type.
  std::vector<std::string> of_type(TokenType type) const;
};

/// The model, tokens and types of a model of `vocab` tokens, without unused ones at the end. Throws
/// Error, naming the key, unless all tokens are of the `allowed` types.
Vocabulary read_vocabulary(const nlohmann::ordered_json& metadata, int64_t vocab,
                           std::initializer_list<int> allowed);

/// The name of the token before every text, or null. `by_default`: whether there is one if the
/// metadata do not say.
nlohmann::json first_token(const nlohmann::ordered_json& metadata, const Vocabulary& vocabulary,
                           bool by_default);

/// Adds the keys "tokenizer.ggml...." for a model of `vocab` tokens; without a tokenizer, what says
/// that there is none. Throws Error on a tokenizer that llama.cpp lacks, or with more tokens.
void add_gguf_tokenizer(nlohmann::ordered_json& metadata, const Tokenizer* tokenizer,
                        int64_t vocab);

/// The tokenizer that the metadata describe, null if they say that there is none. Throws Error,
/// naming the key, unless it is of characters, byte pairs or pieces and the model's vocabulary is its.
std::unique_ptr<Tokenizer> read_gguf_tokenizer(const nlohmann::ordered_json& metadata,
                                               int64_t vocab);

}  // namespace gradus::models::internal
