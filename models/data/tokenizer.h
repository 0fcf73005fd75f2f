#pragma once
// Tokenizers: text to numbers and back.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace gradus::models {

/// Text to token ids, 0 ... vocab_size() - 1, and back. Texts are UTF-8.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Throws Error, naming what and where, on what the vocabulary lacks.
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;
  /// Throws Error on an id outside [0, vocab_size()).
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
  virtual int64_t vocab_size() const = 0;
  /// Writes a JSON object whose "type" says what kind it is, complete or not at all.
  virtual void save(const std::string& path) const = 0;
};

/// Reads what any tokenizer's save() wrote. Throws Error, naming the file and what is wrong.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// One token a character (Unicode code point). The vocabulary is the set of characters of a text,
/// in the order of their code points; a token is a character's place in it. Texts are UTF-8.
class CharTokenizer : public Tokenizer {
 public:
  /// The vocabulary of `text`. Throws Error if it is empty or, naming the byte, not UTF-8.
  explicit CharTokenizer(const std::string& text);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(vocab_.size()); }

  /// Writes `{"type": "char", "vocab": ["\n", " ", ...]}`.
  void save(const std::string& path) const override;
  /// Reads what save wrote. Throws Error, naming the file and what is wrong with it.
  static CharTokenizer load(const std::string& path);

 private:
  CharTokenizer() = default;
  void add(char32_t code_point, std::string character);

  std::vector<std::string> vocab_;             // each character in UTF-8
  std::unordered_map<char32_t, int64_t> ids_;  // code point -> place in vocab_
};

}  // namespace gradus::models
