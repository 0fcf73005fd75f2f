#pragma once
// Span corruption: removes spans of tokens from a text, and the model learns to write them. A
// special token, called sentinel, marks each gap.

#include <cstdint>
#include <vector>

#include "gradus/core/runtime/random.h"

namespace gradus::models {

struct CorruptSpansOptions {
  double rate = 0.15;          ///< fraction of the tokens to remove, above 0 and below 1
  double mean_span = 3;        ///< mean length of the removed spans, in tokens, at least 1
  int64_t first_sentinel = 0;  ///< id of the first gap's sentinel; later gaps use the next ids
  int64_t sentinels = 100;     ///< number of sentinel ids; a text needs one per gap plus one
};

/// A training pair for T5: the encoder reads `source`, and the decoder learns to write `target`.
struct CorruptedSpans {
  std::vector<int64_t> source;  ///< the tokens, each span replaced by its sentinel
  std::vector<int64_t> target;  ///< sentinel, span, sentinel, span, ..., and one more sentinel
};

/// The numbers of spans and tokens that corrupt_spans removes.
struct SpanCounts {
  int64_t spans, taken;  ///< number of spans and of tokens removed
};
/// Returns the counts for a sequence of n tokens. Throws Error unless n >= 2, 0 < rate < 1 and
/// mean_span >= 1.
SpanCounts span_counts(int64_t n, const CorruptSpansOptions& options);

/// Removes r = round(rate n) of n tokens, at least 1 and at most n - 1, in round(r / mean_span)
/// spans, at least 1 and at most n - r. Raffel et al. 2020, arXiv 1910.10683, sections 3.1.4 and
/// 3.3.4. Lengths and positions are drawn uniformly from all arrangements without empty spans and
/// with at least one token kept between any two spans. (T5's own code always removes a span at the
/// end.) The result depends only on the arguments. Throws Error on fewer than 2 tokens, on options
/// out of range, on a token that is a sentinel, and on too few sentinels.
CorruptedSpans corrupt_spans(const std::vector<int64_t>& tokens, const CorruptSpansOptions& options,
                             RandomKey key);

}  // namespace gradus::models
