#pragma once
// A text as training data for a language model.

#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/text/token_file.h"

namespace gradus::models {

/// Windows of T = context tokens, and the same windows one token later.
struct TokenBatch {
  Tensor inputs;   ///< (B, T) int64
  Tensor targets;  ///< (B, T) int64: the token after each input
};

/// The part of the data to train on, and the part to evaluate on.
enum class Split { train, validation };

/// A stream of tokens in two splits: the first nine tenths train, the last tenth validates. The
/// tokens are in memory or in files; the batches are the same.
class TextData {
 public:
  /// Throws Error if either split has fewer than context + 1 tokens.
  TextData(std::vector<int64_t> tokens, int64_t context);
  /// Takes two streams, one per split.
  TextData(std::vector<int64_t> train, const std::vector<int64_t>& validation, int64_t context);
  /// Takes streams in files, read as needed. The methods throw as TokenFile::read does.
  TextData(TokenFile tokens, int64_t context);
  TextData(TokenFile train, TokenFile validation, int64_t context);

  using Split = models::Split;  ///< also known as TextData::Split
  /// `batch` windows at random positions of a split: a function of (seed, step, index) alone, so a
  /// resumed run sees the batches of an uninterrupted one. Throws Error unless 1 <= batch <= 2^16,
  /// 0 <= step < 2^32 and 0 <= index < 2^16.
  TokenBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                          int64_t index = 0) const;
  /// Windows first, first + 1, ..., at most `batch` of them: (b, T). Window i starts at token
  /// i * T.
  TokenBatch windows(Split split, int64_t first, int64_t batch) const;
  /// Number of consecutive windows in a split.
  int64_t num_windows(Split split) const;
  /// The tokens after the last window, as a shorter window: (1, n), 0 <= n < T.
  TokenBatch after_windows(Split split) const;
  /// Number of tokens in a split.
  int64_t length(Split split) const;

 private:
  void check_lengths() const;
  void copy(Split split, int64_t first, int64_t n, int64_t* to) const;
  TokenBatch gather(Split split, const std::vector<int64_t>& starts, int64_t length) const;

  std::vector<int64_t> tokens_;   // both splits; empty if the tokens are in files
  std::vector<TokenFile> files_;  // one for both splits, or one for each; else empty
  int64_t total_;
  int64_t context_;
  int64_t train_length_;
};

}  // namespace gradus::models
