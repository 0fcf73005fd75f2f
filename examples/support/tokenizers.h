#pragma once
// Which tokenizer a program uses: its flags, how it is made or read, and text from its tokens.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "gradus/models/folder/model_folder.h"

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

/// The tokenizer in the folder of a model of that many tokens. Byte pairs and pieces of words may be
/// fewer: models of others often have a round number. Throws Error if they are not as many.
std::unique_ptr<models::Tokenizer> load_tokenizer_for(const std::string& folder, int64_t vocab);

/// How many tokens a model of type Model has that begins with that in `begins_with`, if there is one:
/// as many as it or, where there are more, as the tokenizer.
template <class Model>
int64_t vocab_for(const std::string& begins_with, const models::Tokenizer& tokenizer) {
  const int64_t vocab = tokenizer.vocab_size();
  if (begins_with.empty() || !std::filesystem::exists(models::config_path(begins_with)))
    return vocab;
  return std::max(vocab, models::load_config<Model>(begins_with).vocab);
}

/// Puts a text together from tokens that come one by one: what add() gives, one behind the other,
/// is what the tokenizer would make of all. (Words in "plain quotes" may get a space too many after
/// hundreds of tokens, for then it forgets the first ones.) Bytes come as they are: a byte pair
/// may be part of a character.
class TokenText {
 public:
  explicit TokenText(const models::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// What this token, behind those before it, adds to the text.
  std::string add(int64_t id);

 private:
  const models::Tokenizer& tokenizer_;
  std::vector<int64_t> ids_;
  size_t length_ = 0;  // of their text
};

/// Writes a text to stdout at once, zeros in it too.
void print_now(const std::string& text);

}  // namespace gradus
