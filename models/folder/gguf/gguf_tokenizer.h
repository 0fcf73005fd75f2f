#pragma once
// Converts tokenizers to and from the metadata of a GGUF file. Internal: no public header includes
// this file.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models::internal {

/// The values of "tokenizer.ggml.token_type".
enum TokenType { normal = 1, unknown_token, control, user_defined, unused, byte };

/// Returns the key of a metadata entry: "tokenizer.ggml." followed by `key`.
std::string in_ggml(const char* key);

/// The vocabulary in the metadata of a GGUF file.
struct Vocabulary {
  std::string model, pre = {};           // tokenizer.ggml.model and tokenizer.ggml.pre
  std::vector<std::string> tokens = {};  // tokenizer.ggml.tokens, by id
  std::vector<std::string> merges = {};  // tokenizer.ggml.merges
  std::vector<int> types = {};           // tokenizer.ggml.token_type: a TokenType per token

  void add(std::string token, TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
  /// Returns the tokens of a type.
  std::vector<std::string> of_type(TokenType type) const;
};

/// Returns the vocabulary in the metadata, without unused tokens at the end and with `pre` and
/// `merges` empty. If the metadata have no token types, all tokens are normal. Throws Error, naming
/// the key, if the metadata are invalid, if a token's type is not in `allowed`, or if the number of
/// tokens, counting unused ones, is not `vocab`, the model's number of tokens.
Vocabulary read_vocabulary(const nlohmann::ordered_json& metadata, int64_t vocab,
                           std::initializer_list<int> allowed);

/// Returns the token that the tokenizer puts before every text, as a JSON string, or null if there
/// is none. The metadata entry add_bos_token says whether there is one; if the entry is missing,
/// `by_default` decides. Throws Error if there is one but bos_token_id is not a valid id.
nlohmann::json first_token(const nlohmann::ordered_json& metadata, const Vocabulary& vocabulary,
                           bool by_default);

/// Adds the entries "tokenizer.ggml.*", which describe the tokenizer, to the metadata. A null
/// tokenizer is described as "no_vocab". `vocab` is the model's number of tokens. Throws Error if
/// llama.cpp does not support the tokenizer (gguf.h lists what it supports), or if it has more than
/// `vocab` tokens.
void add_gguf_tokenizer(nlohmann::ordered_json& metadata, const Tokenizer* tokenizer,
                        int64_t vocab);

/// Returns the tokenizer that the metadata describe, or null if they say "no_vocab". Throws Error
/// if the metadata are invalid, if the tokenizer is not of a kind listed in gguf.h, or if the
/// number of tokens, counting unused ones, is not `vocab`.
std::unique_ptr<Tokenizer> read_gguf_tokenizer(const nlohmann::ordered_json& metadata,
                                               int64_t vocab);

}  // namespace gradus::models::internal
