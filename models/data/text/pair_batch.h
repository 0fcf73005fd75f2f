#pragma once
// Pairs of token sequences as batches for a model that reads one and writes the other.

#include <cstdint>
#include <span>
#include <vector>

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/text/text_data.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// Pairs x, y of tokens, padded to the longest of the batch: S the tokens of the longest x, T one
/// more than those of the longest y. All int64.
struct PairBatch {
  Tensor source;          ///< (B, S): x, then [PAD]
  Tensor source_lengths;  ///< (B): the tokens of each x, 1 to S
  Tensor inputs;          ///< (B, T): [START] y, then [PAD]
  Tensor targets;         ///< (B, T): y [END], then -100, which cross_entropy ignores
};

/// Where such batches come from: some of the pairs train, the others are held out.
class PairSource {
 public:
  virtual ~PairSource() = default;
  /// How many pairs a part has.
  virtual int64_t num_pairs(Split part) const = 0;
  /// The most tokens that a target has.
  virtual int64_t longest_target() const = 0;

  /// `batch` pairs at random of a part: a function of (seed, step, index) alone, with
  /// TextData::random_batch's limits.
  PairBatch random_batch(Split part, int64_t batch, uint64_t seed, int64_t step,
                         int64_t index = 0) const;
  /// The pairs from the first-th on, at most `batch` of them, in the order given: the same
  /// whenever asked.
  PairBatch pairs(Split part, int64_t first, int64_t batch) const;

 protected:
  /// A pair as tokens.
  struct TokenPair {
    std::vector<int64_t> source, target;  ///< without [START] and [END]
  };
  /// The source tokenizer needs [PAD], the target tokenizer [PAD], [START] and [END]. Errors open
  /// with `name`.
  PairSource(const char* name, const Tokenizer& source, const Tokenizer& target);
  /// Pair i of a part; what there is of chance in it comes from `key`.
  virtual TokenPair pair(Split part, int64_t i, RandomKey key) const = 0;

  /// Which of some sequences are held out: of the n that differ round(share n) ones, at random and
  /// wherever they stand, at least one of two or more unless the share is 0; it does not depend on
  /// the sequences' order. Throws Error unless the share is in [0, 1).
  std::vector<bool> held_out(const std::vector<std::span<const int32_t>>& sequences, double share,
                             uint64_t seed) const;

 private:
  PairBatch gather(const std::vector<TokenPair>& rows) const;
  const char* name_;
  int64_t source_pad_, target_pad_, start_, end_;
};

}  // namespace gradus::models
