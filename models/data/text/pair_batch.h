#pragma once
// Batches of pairs of token sequences, for a model that reads one sequence and writes the other.

#include <cstdint>
#include <span>
#include <vector>

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/text/text_data.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// Pairs x, y of token sequences, padded to the longest in the batch. S is the length of the
/// longest x. T is the length of the longest y plus one, for [START] or [END]. All tensors are
/// int64.
struct PairBatch {
  Tensor source;          ///< (B, S): x, then [PAD]
  Tensor source_lengths;  ///< (B): length of each x, 1 to S
  Tensor inputs;          ///< (B, T): [START] y, then [PAD]
  Tensor targets;         ///< (B, T): y [END], then -100, which cross_entropy ignores
};

/// Base class of data sets whose pairs are split into training and validation.
class PairSource {
 public:
  virtual ~PairSource() = default;
  /// Returns the number of pairs in a split.
  virtual int64_t num_pairs(Split split) const = 0;
  /// Returns the length of the longest target of both splits, in tokens, without [START] and [END].
  virtual int64_t longest_target() const = 0;

  /// Returns `batch` random pairs of a split. They depend only on the split and (seed, step,
  /// index). The arguments and their limits are those of TextData::random_batch. Throws Error if
  /// the split is empty.
  PairBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                         int64_t index = 0) const;
  /// Returns up to `batch` consecutive pairs of a split, beginning with pair `first`. They are the
  /// same on every call. Throws Error unless 0 <= first < num_pairs(split) and batch >= 1.
  PairBatch pairs(Split split, int64_t first, int64_t batch) const;

 protected:
  /// A pair as tokens.
  struct TokenPair {
    std::vector<int64_t> source, target;  ///< without [START] and [END]
  };
  /// The source tokenizer needs [PAD]. The target tokenizer needs [PAD], [START] and [END]. Throws
  /// Error if one is missing or if a vocabulary has 2^31 tokens or more. `name` is not copied and
  /// must outlive this object. Error messages of this class begin with `name`, except the message
  /// about a missing token.
  PairSource(const char* name, const Tokenizer& source, const Tokenizer& target);
  /// Returns pair i of a split. All randomness comes from `key`.
  virtual TokenPair pair(Split split, int64_t i, RandomKey key) const = 0;

  /// Returns, for each sequence, whether to hold it out. Chooses round(share n) of the n distinct
  /// sequences at random, with all their repeats, but at least one if n > 1 and share > 0. The
  /// choice does not depend on the order of the sequences. Throws Error unless 0 <= share < 1.
  std::vector<bool> held_out(const std::vector<std::span<const int32_t>>& sequences, double share,
                             uint64_t seed) const;

 private:
  PairBatch gather(const std::vector<TokenPair>& rows) const;
  const char* name_;
  int64_t source_pad_, target_pad_, start_, end_;
};

}  // namespace gradus::models
