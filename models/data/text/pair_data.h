#pragma once
// Pairs of texts as training data for a model that reads one and writes the other.

#include <cstdint>
#include <vector>

#include "gradus/models/data/text/pair_batch.h"
#include "gradus/models/data/text/pairs.h"

namespace gradus::models {

struct PairDataOptions {
  int64_t max_source = 256;  ///< pairs with more tokens are left out
  int64_t max_target = 256;  ///< [START] and [END] not counted
  double validation =
      0.1;  ///< the share of the different sources that is held out, above 0: at least one
  uint64_t seed = 0;  ///< decides which
};

/// Encoded pairs, some of them held out. No source stands on both sides, in whatever pairs: neither
/// as text nor as tokens (two texts may be the same in lower case, or with [UNK] in them).
class PairData : public PairSource {
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

  const Report& report() const { return report_; }  ///< of the pairs given
  int64_t num_pairs(Split part) const override { return std::ssize(places(part)); }  ///< of a part
  int64_t longest_target() const override { return report_.longest_target; }
  /// Where pair i of a part stood among those given (in the list given for its part).
  int64_t original(Split part, int64_t i) const;

 private:
  struct Place {
    int64_t source, target, end;  // where in tokens_ they begin; where the target ends
    int64_t original;
  };
  TokenPair pair(Split part, int64_t i, RandomKey key) const override;
  std::vector<Place> encode(const std::vector<TextPair>& pairs, const Tokenizer& source,
                            const Tokenizer& target, const PairDataOptions& options);
  void finish(const Tokenizer& source, const Tokenizer& target);
  const std::vector<Place>& places(Split part) const {
    return part == Split::train ? train_ : validation_;
  }

  std::vector<int32_t> tokens_;
  std::vector<Place> train_, validation_;
  Report report_;
};

}  // namespace gradus::models
