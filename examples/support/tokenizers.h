#pragma once
// The example programs' tokenizers: their flags, training or loading them, and decoding.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "gradus/models/folder/model_folder.h"

namespace gradus {

struct TokenizerOptions {
  std::string name = "char";  ///< "char", "word", "bpe", or a folder that holds a tokenizer
  int64_t vocab = 4096;       ///< maximum vocabulary size of bpe and words

  /// The folder, or "" for a tokenizer to build.
  std::string folder() const;
};

/// Declares --tokenizer char|word|bpe|DIR and --vocab.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// Loads the tokenizer of the folder `begins_with` or, if that is empty, that of the options, or
/// builds one from `text` with the given special tokens. Throws Error if the options' name is neither
/// a kind nor a folder.
std::unique_ptr<models::Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                                  const std::string& begins_with,
                                                  const std::string& text,
                                                  const std::vector<std::string>& special = {});

/// Loads the tokenizer from the folder of a model with `vocab` tokens. Throws Error if it has
/// another number of tokens; a tokenizer of byte pairs or word pieces may have fewer, since models
/// often round their vocabulary up.
std::unique_ptr<models::Tokenizer> load_tokenizer_for(const std::string& folder, int64_t vocab);

/// The vocabulary size for a Model that starts from the weights in the folder `begins_with`, if not
/// empty: the tokenizer's or, if larger, that of the model in the folder.
template <class Model>
int64_t vocab_for(const std::string& begins_with, const models::Tokenizer& tokenizer) {
  const int64_t vocab = tokenizer.vocab_size();
  if (begins_with.empty() || !std::filesystem::exists(models::config_path(begins_with)))
    return vocab;
  return std::max(vocab, models::load_config<Model>(begins_with).vocab);
}

/// The text of each token on its own, for labels in pictures.
std::vector<std::string> token_texts(const models::Tokenizer& tokenizer,
                                     const std::vector<int64_t>& ids);

/// Decodes tokens one at a time: the pieces that add() returns concatenate to the decoded text.
/// (Words in "plain quotes" may get an extra space after hundreds of tokens, as only recent tokens
/// are kept.) A piece may end within a UTF-8 character.
class TokenText {
 public:
  explicit TokenText(const models::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// Returns the text that this token adds to the text of the tokens before it.
  std::string add(int64_t id);

 private:
  const models::Tokenizer& tokenizer_;
  std::vector<int64_t> ids_;
  size_t length_ = 0;  // of the text of ids_
};

/// Writes a text, which may contain NUL bytes, to stdout and flushes.
void print_now(const std::string& text);

}  // namespace gradus
