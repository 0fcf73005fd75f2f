#pragma once
// Corpus: the text that trains a language model, its tokenizer, and the tokens of its training and
// validation splits, in memory or on disk.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/support/tokenizers.h"
#include "examples/tasks/token_source.h"
#include "gradus/models/data/text/text_data.h"

namespace gradus {

struct CorpusOptions {
  std::string data;      ///< path of the text; empty means gradus's own source
  std::string val_data;  ///< path of the validation text; empty: the last tenth of `data`
  TokenizerOptions tokenizer = {};
  /// Whether to read texts in pieces and keep tokens in files. Each text must then be one file.
  bool on_disk = false;
  /// With on_disk, a tokenizer is trained on at most this many bytes from the start of each text.
  int64_t head = 1 << 26;
};

/// Which token files a Corpus with on_disk writes. `replace` writes every file that is missing,
/// damaged, or of another text or tokenizer. `keep` writes missing and damaged files, but leaves a
/// file of another text or tokenizer unchanged. `read_only` writes no files.
enum class TokenFiles { replace, keep, read_only };

/// Declares --data, --val-data, --tokenizer, --vocab and --on-disk.
void add_corpus_flags(Flags& flags, CorpusOptions& options);

/// A text, split into training and validation text. Without a validation file, the first nine
/// tenths of the text are the training text, counted in characters for a character tokenizer and
/// otherwise in bytes. Word and BPE tokenizers are trained on the training text only, so a word
/// tokenizer encodes words that occur only in the validation text as [UNK]. A character tokenizer
/// contains the characters of both texts. With on_disk, CorpusOptions::head limits how much of each
/// text a tokenizer is trained on.
class Corpus : public TokenSource {
 public:
  /// Reads the text. `begins_with` is the folder of the model that is trained further, or "" for a
  /// new model. Loads the tokenizer from this folder or, if it is "", from
  /// options.tokenizer.folder(). If both are "", trains a tokenizer.
  ///
  /// With on_disk, keeps the tokens in `folder`: in train.tokens and validation.tokens or, for a
  /// character tokenizer without a validation file, in text.tokens. An existing file is reused if
  /// it is complete and was made from this text with this tokenizer. Otherwise the text is encoded
  /// and the file is written. If `files` forbids writing (see TokenFiles), the tokens are written
  /// to a temporary file instead.
  ///
  /// Throws Error, naming the file, if the tokenizer rejects a text. Also throws Error if a text is
  /// too short for windows of `context` tokens.
  Corpus(const CorpusOptions& options, const std::string& begins_with, const std::string& folder,
         int64_t context, TokenFiles files = TokenFiles::replace);

  const models::Tokenizer& tokenizer() const override { return *tokenizer_; }
  /// Returns a string that identifies the texts and, with on_disk, their tokens.
  const std::string& id() const override { return id_; }
  std::string opening() const override;
  models::PackedBatch random_batch(models::Split split, int64_t batch, uint64_t seed, int64_t step,
                                   int64_t index) const override;
  int64_t validation_batches() const override;
  int64_t validation_tokens() const override;
  models::PackedBatch validation_batch(int64_t i) const override;
  /// Returns the number of bytes of text that the targets represent. Each token counts as the bytes
  /// to which it decodes. If the tokenizer drops the white space between words, each token counts
  /// instead as the mean number of bytes per token of the whole text.
  double bytes(const Tensor& targets) const override;
  /// Returns a prompt of one token: a line break or, if the vocabulary has none, the first token of
  /// the text.
  std::vector<int64_t> first_tokens() const override { return {first_token_}; }

 private:
  struct Text;
  struct Range;
  std::vector<Range> cut(const std::vector<Text>& texts) const;
  std::vector<int64_t> encode(const Range& range);
  void read(const std::vector<Range>& ranges, const std::vector<Text>& texts, int64_t context);
  void read_from_disk(const std::vector<Range>& ranges, const std::string& folder, TokenFiles files,
                      int64_t context);
  std::string source_of(const Range& range) const;
  models::TokenFile tokens_of(const Range& range, const std::string& path, TokenFiles files);
  void add_id(const std::string& id);
  void measure_tokens();

  CorpusOptions o_;
  int64_t context_;
  std::unique_ptr<models::Tokenizer> tokenizer_;
  std::optional<models::TextData> data_;
  std::string id_;
  int64_t text_bytes_ = 0, unknown_ = 0, first_token_ = 0;
  std::vector<double> bytes_;  // number of text bytes of each token id, see bytes()
};

}  // namespace gradus
