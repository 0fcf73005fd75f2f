#pragma once
// The text that a language model learns from: a tokenizer for it, and its tokens in two parts, in
// memory or on disk.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/support/tokenizers.h"
#include "gradus/models/data/text/text_data.h"

namespace gradus {

struct CorpusOptions {
  std::string data;      ///< a file; empty: gradus's own source
  std::string val_data;  ///< a file that validates; empty: the end of `data`
  TokenizerOptions tokenizer = {};
  bool on_disk = false;  ///< reads pieces of the files, and the tokens from files of their own
  int64_t head =
      1 << 26;  ///< on disk: of how many bytes, from a file's first on, a tokenizer is made
};

/// Declares --data, --val-data, --tokenizer, --vocab and --on-disk.
void add_corpus_flags(Flags& flags, CorpusOptions& options);

/// Nine tenths of a text train, the rest validates: nine tenths of its characters where these are
/// the tokens, else of its bytes. Words and byte pairs are learned from the training part alone; a
/// word that it lacks is [UNK]. The characters are those of both parts.
class Corpus {
 public:
  /// `begins_with`: a folder whose tokenizer is taken (see make_tokenizer). `folder`: where the tokens
  /// go, on disk: text.tokens, or train.tokens and validation.tokens. Those that are there are taken if
  /// it was this text and this tokenizer that they were made of, and they are whole. If it may not be
  /// written (`read_only`), others go to temporary files. Throws Error, naming the file and the byte, on
  /// a text that the tokenizer refuses, and on one too short for windows of `context` tokens.
  Corpus(const CorpusOptions& options, const std::string& begins_with, const std::string& folder,
         int64_t context, bool read_only = false);

  const models::Tokenizer& tokenizer() const { return *tokenizer_; }
  const models::TextData& data() const { return *data_; }
  /// Tells the texts, and on disk their tokens, from others.
  const std::string& id() const { return id_; }
  /// "text   FILE: ...": its name and its size.
  std::string opening() const;
  /// How many bytes of text the tokens stand for; words, which lack the white space between them,
  /// for the text's mean.
  double bytes(const Tensor& ids) const;
  /// What a text may begin with: a line break, or the text's first token.
  std::vector<int64_t> first_tokens() const { return {first_token_}; }

 private:
  struct Text;
  struct Range;
  std::vector<Range> cut(const std::vector<Text>& texts) const;
  std::vector<int64_t> encode(const Range& range);
  void read(const std::vector<Range>& ranges, const std::vector<Text>& texts, int64_t context);
  void read_from_disk(const std::vector<Range>& ranges, const std::string& folder, bool read_only,
                      int64_t context);
  std::string source_of(const Range& range) const;
  models::TokenFile tokens_of(const Range& range, const std::string& path, bool read_only);
  void add_id(const std::string& id);
  void measure_tokens();

  CorpusOptions o_;
  std::unique_ptr<models::Tokenizer> tokenizer_;
  std::optional<models::TextData> data_;
  std::string id_;
  int64_t text_bytes_ = 0, unknown_ = 0, first_token_ = 0;
  std::vector<double> bytes_;  // by token
};

}  // namespace gradus
