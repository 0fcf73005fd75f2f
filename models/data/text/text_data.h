#pragma once
// A text as training data for a language model.

#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/text/token_file.h"

namespace gradus::models {

/// Token windows and what follows each token: both (B, T) int64, targets one place further on.
struct TokenBatch {
  Tensor inputs;   ///< (B, T) int64
  Tensor targets;  ///< (B, T) int64: the token after each
};

/// What trains a model, and what says how good it is.
enum class Split { train, validation };

/// A stream of tokens cut in two: the first nine tenths train, the last tenth validates. It is kept
/// in memory or read from files, with the same batches.
class TextData {
 public:
  /// Throws Error if either part is shorter than context + 1 tokens.
  TextData(std::vector<int64_t> tokens, int64_t context);
  /// Two streams, one for each part.
  TextData(std::vector<int64_t> train, const std::vector<int64_t>& validation, int64_t context);
  /// Streams that stay in their files. The methods throw what TokenFile::read does.
  TextData(TokenFile tokens, int64_t context);
  TextData(TokenFile train, TokenFile validation, int64_t context);

  using Split = models::Split;  ///< as TextData::Split, too
  /// `batch` windows at random places of a part: a function of (seed, step, index) alone, so a
  /// resumed run sees the batches of an uninterrupted one. At most 2^16 windows; 0 <= step < 2^32,
  /// 0 <= index < 2^16.
  TokenBatch random_batch(Split part, int64_t batch, uint64_t seed, int64_t step,
                          int64_t index = 0) const;
  /// Windows side by side, from the first-th on, at most `batch` of them: (b, T).
  TokenBatch windows(Split part, int64_t first, int64_t batch) const;
  /// How many windows side by side a part holds.
  int64_t num_windows(Split part) const;
  /// What follows the last of them: (1, n), 0 <= n < T.
  TokenBatch after_windows(Split part) const;
  /// How many tokens a part has.
  int64_t length(Split part) const;

 private:
  void check_lengths() const;
  void copy(Split part, int64_t first, int64_t n, int64_t* to) const;
  TokenBatch gather(Split part, const std::vector<int64_t>& starts, int64_t length) const;

  std::vector<int64_t> tokens_;   // of both parts; or
  std::vector<TokenFile> files_;  // one of both, or one of each
  int64_t total_;
  int64_t context_;
  int64_t train_length_;
};

}  // namespace gradus::models
