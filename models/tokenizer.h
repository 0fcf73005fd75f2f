#pragma once
// Tokenizers: text to numbers and back.

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace gradus::models {

/// One token a character (Unicode code point). The vocabulary is the set of characters of a text,
/// in the order of their code points; a token is a character's place in it. Texts are UTF-8.
class CharTokenizer {
 public:
  /// The vocabulary of `text`. Throws Error if it is empty or, naming the byte, not UTF-8.
  explicit CharTokenizer(const std::string& text);

  /// Throws Error, naming the character and where it stands, on one that the vocabulary lacks.
  std::vector<int64_t> encode(const std::string& text) const;
  /// Throws Error on an id outside [0, vocab_size()).
  std::string decode(const std::vector<int64_t>& ids) const;
  int64_t vocab_size() const { return static_cast<int64_t>(vocab_.size()); }

  /// Writes `{"type": "char", "vocab": ["\n", " ", ...]}`, complete or not at all.
  void save(const std::string& path) const;
  /// Reads what save wrote. Throws Error, naming the file and what is wrong with it.
  static CharTokenizer load(const std::string& path);

 private:
  CharTokenizer() = default;
  void add(char32_t code_point, std::string character);

  std::vector<std::string> vocab_;             // each character in UTF-8
  std::unordered_map<char32_t, int64_t> ids_;  // code point -> place in vocab_
};

}  // namespace gradus::models
