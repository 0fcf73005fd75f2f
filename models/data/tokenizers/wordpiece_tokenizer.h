#pragma once
// BERT's tokenizer, with pieces of words as tokens.

#include <string>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

struct WordPieceOptions {
  bool lower_case = true;     ///< whether to lower-case text
  bool strip_accents = true;  ///< whether to strip accents; Hangul syllables become jamo
  bool split_cjk = true;      ///< whether each Chinese character is a separate word
  /// Names of the special tokens. Names that are not in the vocabulary are ignored.
  std::vector<std::string> special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
};

/// BERT's WordPiece tokenizer: Devlin et al. 2019, arXiv 1810.04805, and the code published with
/// it.
///
/// encode first drops U+FFFD and characters of category C (control, format, private use), except
/// tab, LF, CR and unassigned code points. It splits the text at white space. Each punctuation
/// character is a word; in ASCII, all visible characters except letters and digits count as
/// punctuation. If split_cjk is set, each Chinese character is a word too. Words are lower-cased
/// and stripped of accents according to the options. Each character is lower-cased separately, as
/// in Hugging Face's fast tokenizers. (BERT's original code writes U+03C2 for a sigma at the end of
/// a word.) Character classes follow Unicode.
///
/// encode then splits each word, from the left, into the longest pieces in the vocabulary. Pieces
/// inside a word start with "##". A word that cannot be split in this way, or has more than 100
/// characters, becomes [UNK].
///
/// encode throws Error on text that is not UTF-8; the message names the offset of the invalid byte.
/// If there is no [UNK], encode also throws Error on a word that would become [UNK]; the message
/// names the word.
///
/// decode puts one space between words. The original spacing is lost, and so are the capitals and
/// accents that encode removed.
class WordPieceTokenizer : public Tokenizer {
 public:
  /// Constructs a tokenizer with the vocabulary `pieces`; piece i has the id i. Throws Error if
  /// there are no pieces, if a piece is empty, repeated or not UTF-8, or if options.special
  /// contains a piece twice.
  explicit WordPieceTokenizer(std::vector<std::string> pieces,
                              const WordPieceOptions& options = {});
  explicit WordPieceTokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(pieces_.size()); }
  /// Returns the options that were passed to the constructor or read from the file.
  const WordPieceOptions& options() const { return options_; }

  /// Returns the tokenizer as a JSON object:
  ///   `{"type": "wordpiece", "lower_case": true, "strip_accents": true, "split_cjk": true,
  ///    "special": ["[PAD]", ...], "vocab": ["[PAD]", "the", "##s", ...]}`
  std::string to_json() const override;
  /// Reads a file that save() wrote. On failure throws Error, naming the file and the problem.
  static WordPieceTokenizer load(const std::string& path);

  /// Returns a tokenizer with the vocabulary in a vocab.txt, one piece per line. Throws Error if
  /// the file cannot be read. Also throws the errors of the constructor. Messages name the file.
  static WordPieceTokenizer load_vocab(const std::string& path,
                                       const WordPieceOptions& options = {});
  /// Writes the vocabulary to a vocab.txt, one piece per line, atomically. Throws Error if a piece
  /// contains "\n" or ends with "\r", or if the file cannot be written.
  void save_vocab(const std::string& path) const;

 private:
  void cut(const std::u32string& word, std::vector<int64_t>& ids) const;

  std::vector<std::string> pieces_;
  WordPieceOptions options_;
  std::unordered_map<std::string, int64_t> ids_;  // piece -> id, without special tokens
};

}  // namespace gradus::models
