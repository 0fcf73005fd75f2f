#pragma once
// A tokenizer with characters as tokens.

#include <string>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// A tokenizer with one token per character (Unicode code point). The vocabulary consists of the
/// special tokens and, after them, the distinct characters of a text in the order of their code
/// points. encode throws Error on text that is not UTF-8; the message names the offset of the
/// invalid byte.
class CharTokenizer : public Tokenizer {
 public:
  /// Builds the vocabulary from `text`. Throws Error if the text is empty or not UTF-8, or if a
  /// special token is empty, repeated or not UTF-8.
  explicit CharTokenizer(const std::string& text, const std::vector<std::string>& special = {});
  explicit CharTokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(vocab_.size()); }

  /// Returns the tokenizer as a JSON object:
  ///   `{"type": "char", "special": ["[PAD]", ...], "vocab": ["\n", " ", ...]}`
  /// "special" is left out if there are no special tokens.
  std::string to_json() const override;
  /// Reads a file that save() wrote. On failure throws Error, naming the file and the problem.
  static CharTokenizer load(const std::string& path);

 private:
  void add(char32_t code_point, std::string character);

  std::vector<std::string> vocab_;  // names of the special tokens, then characters in UTF-8
  std::unordered_map<char32_t, int64_t> ids_;  // code point -> index in vocab_
};

}  // namespace gradus::models
