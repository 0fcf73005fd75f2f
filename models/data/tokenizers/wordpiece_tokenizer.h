#pragma once
// Pieces of words as tokens: BERT's tokenizer.

#include <string>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

struct WordPieceOptions {
  bool lower_case = true;     ///< whether capitals become small letters
  bool strip_accents = true;  ///< e of U+00E9; Hangul syllables become jamo
  bool split_cjk = true;      ///< each Chinese character is a word
  /// Those of them that the vocabulary has are special.
  std::vector<std::string> special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
};

/// WordPiece as BERT's: Devlin et al. 2019, arXiv 1810.04805, and the code that came with it. A text
/// without its control characters is split at white space; each punctuation character is a word (of
/// ASCII any that prints and is no letter or digit), and each Chinese character. A word, in lower
/// case and without accents if so wanted, is cut from the left into the longest pieces that the
/// vocabulary has, "##" before those that do not begin a word; one that cannot be, or has more than
/// 100 characters, is [UNK]. All as Unicode 14 has it. Texts are UTF-8: encode throws Error, naming
/// the byte, on one that is not, and naming the word where there is no [UNK] to take its place.
///
/// decode puts a space between words: what lay between them, capitals and accents are lost.
class WordPieceTokenizer : public Tokenizer {
 public:
  /// The pieces in the order of their ids. Throws Error on one that is empty, not UTF-8 or there
  /// twice.
  explicit WordPieceTokenizer(std::vector<std::string> pieces,
                              const WordPieceOptions& options = {});
  explicit WordPieceTokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(pieces_.size()); }
  /// The rules by which it splits.
  const WordPieceOptions& options() const { return options_; }

  /// `{"type": "wordpiece", "lower_case": true, "strip_accents": true, "split_cjk": true,
  /// "special": ["[PAD]", ...], "vocab": ["[PAD]", "the", "##s", ...]}`.
  std::string to_json() const override;
  /// Reads what save() wrote. Throws Error, naming the file and what is wrong with it.
  static WordPieceTokenizer load(const std::string& path);

  /// Reads a vocab.txt, a piece a line. Throws Error, naming the file, as the constructor does.
  static WordPieceTokenizer load_vocab(const std::string& path,
                                       const WordPieceOptions& options = {});
  /// Writes it, complete or not at all.
  void save_vocab(const std::string& path) const;

 private:
  void cut(const std::u32string& word, std::vector<int64_t>& ids) const;

  std::vector<std::string> pieces_;
  WordPieceOptions options_;
  std::unordered_map<std::string, int64_t> ids_;  // of pieces that are not special
};

}  // namespace gradus::models
