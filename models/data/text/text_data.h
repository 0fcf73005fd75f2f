#pragma once
// A text as training data for a language model.

#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/text/token_file.h"

namespace gradus::models {

/// A batch of B windows of a text. A window has T consecutive tokens; the target of each token is
/// the token after it. T is the `context` passed to TextData, or less in the window that
/// TextData::after_windows() returns.
struct TokenBatch {
  Tensor inputs;   ///< (B, T) int64
  Tensor targets;  ///< (B, T) int64: the token that follows each input token
};

/// The part of a data set: for training or for validation.
enum class Split { train, validation };

/// The tokens of a text in two splits, for training and for validation. Batches do not depend on
/// whether the tokens are in memory or in files. The constructors throw Error if context < 1 or if
/// either split has fewer than context + 1 tokens.
class TextData {
 public:
  /// Uses the first nine tenths of `tokens` (rounded down) for training, the rest for validation.
  TextData(std::vector<int64_t> tokens, int64_t context);
  /// Uses separate tokens for each split.
  TextData(std::vector<int64_t> train, const std::vector<int64_t>& validation, int64_t context);
  ///@{
  /// Uses tokens that stay in files and are read as needed: one file per split, or one file whose
  /// first nine tenths (rounded down) are for training and the rest for validation. The methods
  /// then throw the errors of TokenFile::read.
  TextData(TokenFile tokens, int64_t context);
  TextData(TokenFile train, TokenFile validation, int64_t context);
  ///@}

  using Split = models::Split;  ///< another name of models::Split
  /// Returns `batch` windows of `context` tokens at random positions of a split. The choice depends
  /// only on the arguments, so a resumed run sees the same batches as an uninterrupted run. If a
  /// training step uses several batches, for example to accumulate gradients, `index` tells them
  /// apart. Throws Error unless 1 <= batch <= 2^16, 0 <= step < 2^32 and 0 <= index < 2^16.
  TokenBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                          int64_t index = 0) const;
  /// Returns up to `batch` consecutive windows of T = context tokens, beginning with window
  /// `first`. Window i starts at token i * T of the split. Returns fewer than `batch` windows only
  /// at the end of the split. Throws Error unless 0 <= first < num_windows(split) and batch >= 1.
  TokenBatch windows(Split split, int64_t first, int64_t batch) const;
  /// Returns the number of windows of `context` tokens into which windows() divides a split.
  int64_t num_windows(Split split) const;
  /// Returns the rest of a split, after the last window of windows(), as one shorter window: (1, n)
  /// with 0 <= n < context.
  TokenBatch after_windows(Split split) const;
  /// Returns the number of tokens in a split.
  int64_t length(Split split) const;

 private:
  void check_lengths() const;
  void copy(Split split, int64_t first, int64_t n, int64_t* to) const;
  TokenBatch gather(Split split, const std::vector<int64_t>& starts, int64_t length) const;

  std::vector<int64_t> tokens_;   // the tokens of both splits; empty if they are in files
  std::vector<TokenFile> files_;  // one for both splits or one per split; empty if tokens_ is used
  int64_t total_;
  int64_t context_;
  int64_t train_length_;
};

}  // namespace gradus::models
