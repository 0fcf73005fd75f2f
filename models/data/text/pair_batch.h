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

/// B pairs of token sequences, each a source and a target. All tensors are int64. S is the length
/// of the longest source. T is the length of the longest target plus one, for [START] or [END].
/// Shorter rows are padded at the end.
struct PairBatch {
  Tensor source;          ///< (B, S): source tokens, then [PAD]
  Tensor source_lengths;  ///< (B): number of tokens in each source, 1 to S
  Tensor inputs;          ///< (B, T): [START], target tokens, then [PAD]
  Tensor targets;         ///< (B, T): target tokens, [END], then -100, which cross_entropy ignores
};

/// Base class of data sets that consist of pairs of token sequences, in a training split and a
/// validation split.
class PairSource {
 public:
  virtual ~PairSource() = default;
  /// Returns the number of pairs in a split.
  virtual int64_t num_pairs(Split split) const = 0;
  /// Returns the number of tokens in the longest target of both splits, without [START] and [END].
  virtual int64_t longest_target() const = 0;

  /// Returns `batch` random pairs of a split. The choice depends only on the arguments. If a
  /// training step uses several batches, `index` tells them apart. Throws Error if the split is
  /// empty, or unless 1 <= batch <= 2^16, 0 <= step < 2^32 and 0 <= index < 2^16.
  PairBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                         int64_t index = 0) const;
  /// Returns up to `batch` consecutive pairs of a split, beginning with pair `first`. A pair is the
  /// same on every call. Throws Error unless 0 <= first < num_pairs(split) and batch >= 1.
  PairBatch pairs(Split split, int64_t first, int64_t batch) const;

 protected:
  /// A pair as tokens.
  struct TokenPair {
    std::vector<int64_t> source, target;  ///< without [START] and [END]
  };
  /// Stores the id of [PAD] of each tokenizer, and the ids of [START] and [END] of the target
  /// tokenizer. Throws Error if a tokenizer lacks one of these tokens or has 2^31 tokens or more.
  /// Error messages of this class begin with `name`, except the message about a missing token.
  /// `name` is not copied and must outlive this object.
  PairSource(const char* name, const Tokenizer& source, const Tokenizer& target);
  /// Returns pair i of a split. Its random choices, if any, depend only on `key`.
  virtual TokenPair pair(Split split, int64_t i, RandomKey key) const = 0;

  /// Returns, for each sequence, whether it is held out for validation. Equal sequences are either
  /// all held out or all kept. Of n distinct sequences, holds out round(share n) at random, but at
  /// least one if n > 1 and share > 0. The choice does not depend on the order of the sequences.
  /// Throws Error unless 0 <= share < 1.
  std::vector<bool> held_out(const std::vector<std::span<const int32_t>>& sequences, double share,
                             uint64_t seed) const;

 private:
  PairBatch gather(const std::vector<TokenPair>& rows) const;
  const char* name_;
  int64_t source_pad_, target_pad_, start_, end_;
};

}  // namespace gradus::models
