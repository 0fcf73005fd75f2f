#pragma once
// Which tokenizer a program uses: its flags, and how it is made or read.

#include <memory>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "gradus/models/data/tokenizer.h"

namespace gradus {

enum class TokenizerKind { characters, words, bpe };

struct TokenizerOptions {
  TokenizerKind kind = TokenizerKind::characters;
  int64_t vocab = 4096;  ///< the most tokens of bpe, the most words
};

/// --tokenizer char|word|bpe and --vocab.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// That of the folder `begins_with` or, if there is none, a new one for `text`, with these special
/// tokens.
std::unique_ptr<models::Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                                  const std::string& begins_with,
                                                  const std::string& text,
                                                  const std::vector<std::string>& special = {});

}  // namespace gradus
