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

/// Returns the key "tokenizer.ggml.KEY" of the metadata.
std::string in_ggml(const char* key);

/// The vocabulary in the metadata of a GGUF file. read_vocabulary() leaves `pre` and `merges` empty.
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

/// Returns the vocabulary of a model of `vocab` tokens, without unused tokens at the end, and with
/// `pre` and `merges` empty. If the metadata have no types, all tokens are normal. Throws Error,
/// naming the key, if the metadata are invalid or do not have `vocab` tokens, including unused
/// ones, or if a token's type is not in `allowed`.
Vocabulary read_vocabulary(const nlohmann::ordered_json& metadata, int64_t vocab,
                           std::initializer_list<int> allowed);

/// Returns the name of the token that precedes every text, or null if there is none. If the
/// metadata do not say whether there is one, `by_default` decides. Throws Error if there is one but
/// the metadata do not name it.
nlohmann::json first_token(const nlohmann::ordered_json& metadata, const Vocabulary& vocabulary,
                           bool by_default);

/// Adds the keys "tokenizer.ggml.*" for a model of `vocab` tokens. If `tokenizer` is null, these
/// keys say that there is none. Throws Error on a tokenizer of another kind than
/// read_gguf_tokenizer() returns, on one that llama.cpp does not support, or on one that has more
/// than `vocab` tokens.
void add_gguf_tokenizer(nlohmann::ordered_json& metadata, const Tokenizer* tokenizer,
                        int64_t vocab);

/// Returns the tokenizer that the metadata describe, or null if they say that there is none. Throws
/// Error if the metadata are invalid, if the tokens are not characters, byte pairs or
/// SentencePiece's pieces of a supported form, or if their number, including unused ones, is not
/// `vocab`.
std::unique_ptr<Tokenizer> read_gguf_tokenizer(const nlohmann::ordered_json& metadata,
                                               int64_t vocab);

}  // namespace gradus::models::internal
