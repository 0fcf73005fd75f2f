#pragma once
// Span corruption: removes spans of tokens from a text, so that a model can learn to restore them.
// A special token, called a sentinel, marks each gap.

#include <cstdint>
#include <vector>

#include "gradus/core/runtime/random.h"

namespace gradus::models {

struct CorruptSpansOptions {
  double rate = 0.15;          ///< fraction of the tokens to remove, above 0 and below 1
  double mean_span = 3;        ///< mean length of the removed spans, in tokens, at least 1
  int64_t first_sentinel = 0;  ///< id of the first span's sentinel; later spans use the next ids
  int64_t sentinels = 100;     ///< number of sentinels; must exceed the number of removed spans
};

/// A training pair for T5: the encoder reads `source`, and the decoder learns to write `target`.
struct CorruptedSpans {
  std::vector<int64_t> source;  ///< the text, with a sentinel in place of each removed span
  std::vector<int64_t> target;  ///< each removed span after its sentinel, then one more sentinel
};

/// The numbers of spans and tokens that corrupt_spans removes.
struct SpanCounts {
  int64_t spans, taken;  ///< number of removed spans; number of removed tokens
};
/// Returns how many spans and how many tokens corrupt_spans removes from n tokens. Throws Error
/// unless n >= 2, 0 < rate < 1 and mean_span >= 1.
SpanCounts span_counts(int64_t n, const CorruptSpansOptions& options);

/// Returns `tokens` with random spans removed, and the removed spans: Raffel et al. 2020, arXiv
/// 1910.10683, sections 3.1.4 and 3.3.4. The result depends only on the arguments.
///
/// Of n tokens, removes r = round(rate n), but at least 1 and at most n - 1. The removed tokens
/// form round(r / mean_span) spans, but at least 1 and at most n - r. No span is empty, and at
/// least one token is kept between two spans. All arrangements of this kind are equally likely.
/// (T5's own code always removes a span at the end.)
///
/// Throws Error if there are fewer than 2 tokens, if an option is out of range, if a token is a
/// sentinel, or if there are too few sentinels.
CorruptedSpans corrupt_spans(const std::vector<int64_t>& tokens, const CorruptSpansOptions& options,
                             RandomKey key);

}  // namespace gradus::models
