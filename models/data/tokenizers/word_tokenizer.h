#pragma once
// Words as tokens.

#include <string>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

struct WordTokenizerOptions {
  int64_t max_words = 0;    ///< keeps the most frequent, special tokens not counted; 0: keeps all
  bool lower_case = false;  ///< "The" and "the" are one word
  /// With the ids 0, 1, 2, ... in this order.
  std::vector<std::string> special = {"[PAD]", "[UNK]", "[START]", "[END]"};
};

/// One token a word. A word is a run of letters, digits and marks (such as accents of their own);
/// each other character, punctuation or symbol, is a token of its own; white space separates and
/// is dropped. So "It's 3.14 km" is It ' s 3 . 14 km. What is a letter and what is not, and
/// what its lower case is, is as Unicode 14 has it.
/// Texts are UTF-8: encode throws Error, naming the byte, on one that is not.
///
/// decode(encode(x)) is not always x: white space is lost, so are capitals under lower_case, and
/// what the vocabulary lacks reads [UNK]. decode puts one space between words, none before
/// . , ; : ! ? ) ] } % and closing quotes, none after ( [ { and opening quotes, and none on either
/// side of ' - / and _ .
class WordTokenizer : public Tokenizer {
 public:
  /// The vocabulary: the special tokens, then the words of `text`, the most frequent first, those
  /// of equal frequency in the order of their bytes. Throws Error on a text without words.
  explicit WordTokenizer(const std::string& text, const WordTokenizerOptions& options = {});
  explicit WordTokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(vocab_.size()); }

  /// `{"type": "word", "lower_case": false, "special": ["[PAD]", ...], "vocab": ["the",
  /// ...]}`.
  std::string to_json() const override;
  /// Reads what save() wrote. Throws Error, naming the file and what is wrong with it.
  static WordTokenizer load(const std::string& path);

 private:
  void add(std::string word);

  bool lower_case_;
  std::vector<std::string> vocab_;  // special tokens' names, then words
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace gradus::models
