#pragma once
// Pre-training without labels: a text with spans taken out, to be written by the model.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/models/data/text/corrupt_spans.h"
#include "gradus/models/data/text/pair_batch.h"

namespace gradus::models {

struct DenoisingOptions {
  int64_t length = 128;     ///< the most tokens of a sequence
  double rate = 0.15;       ///< the share of a sequence's tokens that is taken out
  double mean_span = 3;     ///< tokens
  double validation = 0.1;  ///< the share of the sequences that is held out, above 0: at least one
  uint64_t seed = 0;        ///< decides which
};

/// The lines of a text, corrupted (corrupt_spans.h) anew for each batch: the source is a line whose
/// spans are replaced by sentinels, the target these spans behind their sentinels.
///
/// A sequence is a line; a longer one is cut in equal pieces of at most `length` tokens. Of
/// sequences with the same tokens only the first counts, so that none is on both sides.
class DenoisingData : public PairSource {
 public:
  /// What became of a text.
  struct Report {
    int64_t train = 0, validation = 0;  ///< sequences of each part
    int64_t too_short = 0;              ///< left out: of fewer than 2 tokens, but for empty lines
    int64_t repeated = 0;               ///< left out: the same as an earlier one
    int64_t tokens = 0, unknown = 0;    ///< of the sequences in use; how many of these are [UNK]
    int64_t longest_target = 0;         ///< tokens
  };

  /// [PAD], [UNK], [START], [END] and the sentinels [X0], [X1], ... that sequences of
  /// options.length tokens need: special tokens for the tokenizer.
  static std::vector<std::string> special_tokens(const DenoisingOptions& options = {});

  /// The tokenizer needs [PAD], [START], [END] and sentinels with ids that follow each other. Throws
  /// Error if one is missing, if no sequence is left to train, or naming the line if the tokenizer
  /// refuses one.
  DenoisingData(const std::string& text, const Tokenizer& tokenizer,
                const DenoisingOptions& options = {});

  const Report& report() const { return report_; }  ///< of the text given
  /// Sequences of a part.
  int64_t num_pairs(Split part) const override { return std::ssize(sequences(part)); }
  int64_t longest_target() const override { return report_.longest_target; }
  /// Sequence i of a part, whole.
  std::vector<int64_t> sequence(Split part, int64_t i) const;

 private:
  struct Range {
    int64_t begin, end;  // in tokens_
  };
  std::vector<Range> read(const std::string& text, const Tokenizer& tokenizer, int64_t length);
  TokenPair pair(Split part, int64_t i, RandomKey key) const override;
  const std::vector<Range>& sequences(Split part) const {
    return part == Split::train ? train_ : validation_;
  }

  CorruptSpansOptions spans_;
  std::vector<int32_t> tokens_;
  std::vector<Range> train_, validation_;
  Report report_;
};

}  // namespace gradus::models
