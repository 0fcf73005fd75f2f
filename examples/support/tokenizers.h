#pragma once
// The tokenizers of the example programs: their flags, training and loading, and decoding.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "gradus/models/folder/model_folder.h"

namespace gradus {

struct TokenizerOptions {
  std::string name = "char";  ///< "char", "word", "bpe", or a folder with a tokenizer
  /// For bpe: maximum vocabulary size. For word: maximum number of words, without special tokens.
  int64_t vocab = 4096;

  /// Returns the folder that contains the tokenizer, or "" if a new tokenizer is to be built.
  /// `begins_with` is the folder of the model that is trained further, or "" for a new model. If
  /// `begins_with` is not "", the result is `begins_with`. Otherwise the
  /// result is "" if `name` is "char", "word" or "bpe", and `name` if it is a folder. Throws Error
  /// if the folder `name` does not exist.
  std::string folder(const std::string& begins_with = "") const;
};

/// Declares --tokenizer char|word|bpe|DIR and --vocab.
void add_tokenizer_flags(Flags& flags, TokenizerOptions& options);

/// Returns the tokenizer in the folder options.folder(begins_with). If that is "", returns a new
/// tokenizer of the kind options.name, built from `text`, with the special tokens `special`. Throws
/// Error if the folder does not exist or contains no valid tokenizer, or if no tokenizer can be
/// built from `text`.
std::unique_ptr<models::Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                                  const std::string& begins_with,
                                                  const std::string& text,
                                                  const std::vector<std::string>& special = {});

/// Loads the tokenizer from the folder of a model with `vocab` tokens. Throws Error if the
/// tokenizer has another number of tokens; a BPE or WordPiece tokenizer may have fewer, because
/// models often round their vocabulary size up.
std::unique_ptr<models::Tokenizer> load_tokenizer_for(const std::string& folder, int64_t vocab);

/// Loads the tokenizer of `model` from the model's folder. Throws the errors of
/// load_tokenizer_for().
template <class Model>
std::unique_ptr<models::Tokenizer> tokenizer_of(const std::string& folder, const Model& model) {
  if constexpr (requires { model.config.vocab; })
    return load_tokenizer_for(folder, model.config.vocab);
  else
    return load_tokenizer_for(folder, model.config.target_vocab);
}

/// Returns the vocabulary size for a new Model that will load the weights in the folder
/// `begins_with`: the larger of the tokenizer's size and the size in config.json. If `begins_with`
/// is empty or the folder has no config.json, returns the tokenizer's vocabulary size.
template <class Model>
int64_t vocab_for(const std::string& begins_with, const models::Tokenizer& tokenizer) {
  const int64_t vocab = tokenizer.vocab_size();
  if (begins_with.empty() || !std::filesystem::exists(models::config_path(begins_with)))
    return vocab;
  return std::max(vocab, models::load_config<Model>(begins_with).vocab);
}

/// Decodes each token separately and returns the texts, for labels in pictures.
std::vector<std::string> token_texts(const models::Tokenizer& tokenizer,
                                     const std::vector<int64_t>& ids);

/// Decodes tokens one at a time. The pieces that add() returns, joined, are the decoded text. A
/// piece may end inside a UTF-8 character. Each token is decoded together with at most 511 tokens
/// before it. A WordTokenizer counts the quotes in these tokens to tell opening from closing ones,
/// so in a longer text it may put a space on the wrong side of a quote.
class TokenText {
 public:
  /// Starts with an empty text. The tokenizer must outlive this object.
  explicit TokenText(const models::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// Returns the text that this token adds to the text of the tokens before it.
  std::string add(int64_t id);

 private:
  const models::Tokenizer& tokenizer_;
  std::vector<int64_t> ids_;
  size_t length_ = 0;  // bytes in the text of ids_
};

/// Writes a text, which may contain NUL bytes, to stdout, and flushes stdout.
void print_now(const std::string& text);

}  // namespace gradus
