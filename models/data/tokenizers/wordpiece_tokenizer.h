#pragma once
// BERT's tokenizer, with pieces of words as tokens.

#include <string>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

struct WordPieceOptions {
  bool lower_case = true;     ///< lower-case the text
  bool strip_accents = true;  ///< U+00E9 becomes e; Hangul syllables become jamo
  bool split_cjk = true;      ///< make each Chinese character a word
  /// Special tokens. Names that are not in the vocabulary are ignored.
  std::vector<std::string> special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
};

/// WordPiece as in BERT: Devlin et al. 2019, arXiv 1810.04805, and the code published with it.
/// Characters of category C (control, format, private use) and U+FFFD are dropped, except tab, LF,
/// CR and unassigned code points. The text is split at white space. Each punctuation character (in
/// ASCII: every visible character except letters and digits) is a word. If split_cjk is set, so
/// is each Chinese character. Words are lower-cased and stripped of accents according to the
/// options. Then they are split from the left into the longest pieces in the vocabulary; pieces
/// inside a word start with "##". A word that cannot be split in this way, or has more than 100
/// characters, becomes [UNK]. Character classes follow Unicode. Each character is lower-cased
/// separately, as in Hugging Face's fast tokenizers (BERT's original code writes U+03C2 for a sigma
/// at the end of a word).
///
/// encode throws Error on text that is not UTF-8; the message names the offset of the invalid byte.
/// If there is no [UNK], encode also throws Error on a word that would become [UNK]; the message
/// names the word.
///
/// decode puts one space between words. The original spacing is lost, and so are the capitals and
/// accents that encode removed.
class WordPieceTokenizer : public Tokenizer {
 public:
  /// Uses `pieces`, in the order of their ids, as the vocabulary. Throws Error if there are none,
  /// if a piece is empty, repeated or not UTF-8, or if options.special contains a piece twice.
  explicit WordPieceTokenizer(std::vector<std::string> pieces,
                              const WordPieceOptions& options = {});
  explicit WordPieceTokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(pieces_.size()); }
  /// Returns the options given.
  const WordPieceOptions& options() const { return options_; }

  /// Returns `{"type": "wordpiece", "lower_case": true, "strip_accents": true, "split_cjk": true,
  /// "special": ["[PAD]", ...], "vocab": ["[PAD]", "the", "##s", ...]}`.
  std::string to_json() const override;
  /// Reads a file that save() wrote. On failure throws Error, naming the file and the problem.
  static WordPieceTokenizer load(const std::string& path);

  /// Reads a vocab.txt, one piece per line. Throws Error if the file cannot be read, and the errors
  /// of the constructor; the messages name the file.
  static WordPieceTokenizer load_vocab(const std::string& path,
                                       const WordPieceOptions& options = {});
  /// Writes a vocab.txt, atomically. Throws Error if a piece contains "\n" or ends with "\r", or if
  /// the file cannot be written.
  void save_vocab(const std::string& path) const;

 private:
  void cut(const std::u32string& word, std::vector<int64_t>& ids) const;

  std::vector<std::string> pieces_;
  WordPieceOptions options_;
  std::unordered_map<std::string, int64_t> ids_;  // the pieces that are not special
};

}  // namespace gradus::models
