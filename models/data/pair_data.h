#pragma once
// Pairs of texts as training data for a model that reads one and writes the other.

#include <cstdint>
#include <vector>

#include "gradus/core/tensor.h"
#include "gradus/models/data/pairs.h"
#include "gradus/models/data/text_data.h"
#include "gradus/models/data/tokenizer.h"

namespace gradus::models {

/// Pairs x, y of tokens, padded to the longest of the batch: S the tokens of the longest x, T one
/// more than those of the longest y. All int64.
struct PairBatch {
  Tensor source;          ///< (B, S): x, then [PAD]
  Tensor source_lengths;  ///< (B): the tokens of each x, 1 to S
  Tensor inputs;          ///< (B, T): [START] y, then [PAD]
  Tensor targets;         ///< (B, T): y [END], then -100, which cross_entropy ignores
};

struct PairDataOptions {
  int64_t max_source = 256;  ///< pairs with more tokens are left out
  int64_t max_target = 256;  ///< [START] and [END] not counted
  double validation = 0.1;   ///< the share of the different sources that is held out
  uint64_t seed = 0;         ///< decides which
};

/// Encoded pairs, some of them held out. No source stands on both sides, in whatever pairs: neither
/// as text nor as tokens (two texts may be the same in lower case, or with [UNK] in them).
class PairData {
 public:
  /// How many pairs there are and what became of the others.
  struct Report {
    int64_t train = 0, validation = 0;                 ///< pairs of each part
    int64_t too_long = 0;                              ///< left out: over a maximum
    int64_t empty = 0;                                 ///< left out: a side without tokens
    int64_t held_out = 0;                              ///< left out of training: see below
    int64_t source_tokens = 0, target_tokens = 0;      ///< of the pairs in use
    int64_t unknown_sources = 0, unknown_targets = 0;  ///< of these tokens, how many are [UNK]
    int64_t longest_source = 0, longest_target = 0;    ///< tokens
  };

  /// The source tokenizer needs [PAD]; the target tokenizer [PAD], [START] and [END]. Throws Error
  /// if one is missing, if no pair is left to train, or naming the pair if a tokenizer refuses one.
  PairData(const std::vector<TextPair>& pairs, const Tokenizer& source, const Tokenizer& target,
           const PairDataOptions& options = {});
  /// Pairs that are divided already: training pairs whose source is among the held-out ones are
  /// left out and counted (held_out). options.validation and seed play no part.
  PairData(const std::vector<TextPair>& train, const std::vector<TextPair>& validation,
           const Tokenizer& source, const Tokenizer& target, const PairDataOptions& options = {});

  const Report& report() const { return report_; }
  int64_t num_pairs(Part part) const { return std::ssize(places(part)); }
  /// Where pair i of a part stood among those given (in the list given for its part).
  int64_t original(Part part, int64_t i) const;

  /// `batch` pairs at random of a part: a function of (seed, step, index) alone, with
  /// TextData::random_batch's limits.
  PairBatch random_batch(Part part, int64_t batch, uint64_t seed, int64_t step,
                         int64_t index = 0) const;
  /// The pairs from the first-th on, at most `batch` of them, in the order given.
  PairBatch pairs(Part part, int64_t first, int64_t batch) const;

 private:
  struct Place {
    int64_t source, target, end;  // where in tokens_ they begin; where the target ends
    int64_t original;
  };
  PairData(const Tokenizer& source, const Tokenizer& target);
  std::vector<Place> encode(const std::vector<TextPair>& pairs, const Tokenizer& source,
                            const Tokenizer& target, const PairDataOptions& options);
  void finish(const Tokenizer& source, const Tokenizer& target);
  const std::vector<Place>& places(Part part) const {
    return part == Part::train ? train_ : validation_;
  }
  PairBatch gather(Part part, const std::vector<int64_t>& rows) const;

  std::vector<int32_t> tokens_;
  std::vector<Place> train_, validation_;
  int64_t source_pad_, target_pad_, start_, end_;
  Report report_;
};

}  // namespace gradus::models
