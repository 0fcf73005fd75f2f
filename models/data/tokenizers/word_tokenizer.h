#pragma once
// A tokenizer with words as tokens.

#include <string>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

struct WordTokenizerOptions {
  int64_t max_words = 0;    ///< number of words to keep, the most frequent ones; 0: all
  bool lower_case = false;  ///< whether to lower-case words, so that "The" becomes "the"
  /// Special tokens. Their ids are 0, 1, 2, ... in this order.
  std::vector<std::string> special = {"[PAD]", "[UNK]", "[START]", "[END]"};
};

/// A tokenizer with one token per word. A word is a run of letters, numbers (also ½) and marks
/// (such as combining accents), or a single other character (punctuation, symbol). White space
/// separates words and is dropped. For example, "It's 3.14 km" becomes It ' s 3 . 14 km. Kinds of
/// characters and lower case follow Unicode. encode throws Error on text that is not UTF-8; the
/// message names the offset of the invalid byte.
///
/// decode(encode(x)) may differ from x: white space is lost, capitals are lost if lower_case is
/// set, and words outside the vocabulary become [UNK]. decode puts one space between words, with
/// these exceptions:
/// - no space on either side of ' ’ - / _
/// - no space before . , ; : ! ? … ) ] } % ” »
/// - no space after ( [ { ¿ ¡ “ „ ‘ «
/// - no space inside straight double quotes, which open and close in turn
class WordTokenizer : public Tokenizer {
 public:
  /// Builds the vocabulary from `text`: first the special tokens, then the words by descending
  /// frequency, with ties in byte order. Throws Error if the text has no words or is not UTF-8, if
  /// max_words is negative, or if a special token is empty, repeated or not UTF-8.
  explicit WordTokenizer(const std::string& text, const WordTokenizerOptions& options = {});
  explicit WordTokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(vocab_.size()); }

  /// Returns the tokenizer as a JSON object:
  ///   `{"type": "word", "lower_case": false, "special": ["[PAD]", ...], "vocab": ["the", ...]}`
  std::string to_json() const override;
  /// Reads a file that save() wrote. On failure throws Error, naming the file and the problem.
  static WordTokenizer load(const std::string& path);

 private:
  void add(std::string word);

  bool lower_case_;
  std::vector<std::string> vocab_;  // names of the special tokens, then words
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace gradus::models
