#pragma once
// Pieces of words as tokens: BERT's tokenizer.

#include <string>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

struct WordPieceOptions {
  bool lower_case = true;     ///< lower-cases the text
  bool strip_accents = true;  ///< U+00E9 becomes e; Hangul syllables become jamo
  bool split_cjk = true;      ///< each Chinese character is a word
  /// Special tokens; names that are not in the vocabulary are ignored.
  std::vector<std::string> special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
};

/// WordPiece as in BERT: Devlin et al. 2019, arXiv 1810.04805, and the code published with it.
/// Control characters are dropped and the text is split at white space; each punctuation character
/// (in ASCII: every printable one except letters and digits) is a word, and so is each Chinese
/// character. Words, lower-cased and stripped of accents according to the options, are split from
/// the left into the longest pieces in the vocabulary, with "##" before pieces inside a word. A
/// word that cannot be split this way, or has more than 100 characters, is [UNK]. Character classes
/// follow Unicode. Each character is lower-cased by itself, as by Hugging Face's fast tokenizers; the
/// first code of BERT wrote U+03C2 for a sigma that ends a word. encode throws Error on text that is
/// not UTF-8, naming the byte, and, if there is no [UNK], naming the word.
///
/// decode puts one space between words: the original spacing, capitals and accents are lost.
class WordPieceTokenizer : public Tokenizer {
 public:
  /// Takes the pieces in the order of their ids. Throws Error if there are none or one is empty,
  /// repeated or not UTF-8.
  explicit WordPieceTokenizer(std::vector<std::string> pieces,
                              const WordPieceOptions& options = {});
  explicit WordPieceTokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(pieces_.size()); }
  /// The options given.
  const WordPieceOptions& options() const { return options_; }

  /// `{"type": "wordpiece", "lower_case": true, "strip_accents": true, "split_cjk": true,
  /// "special": ["[PAD]", ...], "vocab": ["[PAD]", "the", "##s", ...]}`.
  std::string to_json() const override;
  /// Reads a file that save() wrote. Throws Error, naming the file and what is wrong with it.
  static WordPieceTokenizer load(const std::string& path);

  /// Reads a vocab.txt, one piece per line. Throws Error as the constructor does, naming the file.
  static WordPieceTokenizer load_vocab(const std::string& path,
                                       const WordPieceOptions& options = {});
  /// Writes a vocab.txt, atomically.
  void save_vocab(const std::string& path) const;

 private:
  void cut(const std::u32string& word, std::vector<int64_t>& ids) const;

  std::vector<std::string> pieces_;
  WordPieceOptions options_;
  std::unordered_map<std::string, int64_t> ids_;  // of the pieces that are not special
};

}  // namespace gradus::models
