#pragma once
// Pre-training data for denoising: a model learns to restore the spans removed from a text.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/models/data/text/corrupt_spans.h"
#include "gradus/models/data/text/pair_batch.h"

namespace gradus::models {

struct DenoisingOptions {
  int64_t length = 128;     ///< maximum number of tokens per sequence, at least 2
  double rate = 0.15;       ///< fraction of a sequence's tokens to remove, above 0 and below 1
  double mean_span = 3;     ///< mean length of the removed spans, in tokens, at least 1
  double validation = 0.1;  ///< fraction of the sequences to hold out for validation, in [0, 1)
  uint64_t seed = 0;        ///< determines which sequences are held out
};

/// Pairs of token sequences for training with span corruption. The source is a line of a text in
/// which a special token, called a sentinel, replaces each removed span. The target lists the
/// removed spans, each after its sentinel, and ends with one more sentinel. random_batch() removes
/// new random spans for each batch; pairs() removes the same spans on every call.
///
/// A line of at most options.length tokens is one sequence. A longer line is divided into sequences
/// whose lengths differ by at most 1. Repeated sequences are dropped, so that no sequence is in
/// both splits. If options.validation is above 0 and there are at least two sequences, at least one
/// is held out.
class DenoisingData : public PairSource {
 public:
  /// Statistics of the text.
  struct Report {
    int64_t train = 0, validation = 0;  ///< number of sequences in each split
    int64_t too_short = 0;              ///< sequences dropped because they have only one token
    int64_t repeated = 0;               ///< sequences dropped because they equal an earlier one
    int64_t tokens = 0, unknown = 0;    ///< number of tokens and number of [UNK] in both splits
    int64_t longest_target = 0;         ///< number of tokens and sentinels in the longest target
  };

  /// Returns the special tokens that a new tokenizer for DenoisingData should have: [PAD], [UNK],
  /// [START], [END] and the sentinels [X0], [X1], ... There are enough sentinels for sequences of
  /// options.length tokens. Throws Error if the length, the rate or the mean span is out of range.
  static std::vector<std::string> special_tokens(const DenoisingOptions& options = {});

  /// Encodes the lines of `text`. The tokenizer needs [PAD], [START], [END] and the sentinels that
  /// special_tokens(options) returns. Throws Error if one of these tokens is missing, if the
  /// sentinels' ids are not consecutive, if an option is out of range, or if no training sequence
  /// is left. Also throws Error if the tokenizer rejects a line; the message then gives the line's
  /// number.
  DenoisingData(const std::string& text, const Tokenizer& tokenizer,
                const DenoisingOptions& options = {});

  const Report& report() const { return report_; }  ///< statistics of the whole text
  /// Returns the number of sequences in a split.
  int64_t num_pairs(Split split) const override { return std::ssize(sequences(split)); }
  int64_t longest_target() const override { return report_.longest_target; }
  /// Returns the tokens of sequence i of a split, before any are removed. Throws Error if there is
  /// no such sequence.
  std::vector<int64_t> sequence(Split split, int64_t i) const;

 private:
  struct Range {
    int64_t begin, end;  // indices in tokens_
  };
  std::vector<Range> read(const std::string& text, const Tokenizer& tokenizer, int64_t length);
  TokenPair pair(Split split, int64_t i, RandomKey key) const override;
  const std::vector<Range>& sequences(Split split) const {
    return split == Split::train ? train_ : validation_;
  }

  CorruptSpansOptions spans_;
  std::vector<int32_t> tokens_;
  std::vector<Range> train_, validation_;
  Report report_;
};

}  // namespace gradus::models
