#pragma once
// Denoising: spans of a text are taken out, to be written by the model.

#include <cstdint>
#include <vector>

#include "gradus/core/runtime/random.h"

namespace gradus::models {

struct CorruptSpansOptions {
  double rate = 0.15;          ///< the share of the tokens that is taken out
  double mean_span = 3;        ///< tokens
  int64_t first_sentinel = 0;  ///< the id of the first gap's mark; the next ones' follow it
  int64_t sentinels = 100;     ///< how many such ids there are; one more than there are gaps
};

/// A text and its spans, as T5's encoder and decoder get them.
struct CorruptedSpans {
  std::vector<int64_t> source;  ///< the tokens, each span replaced by its sentinel
  std::vector<int64_t> target;  ///< sentinel, span, sentinel, span, ..., one more sentinel
};

/// How many spans corrupt_spans takes out, and how many tokens they are together.
struct SpanCounts {
  int64_t spans, taken;  ///< spans that are taken out, and tokens in them
};
/// Those of n tokens. Throws Error on fewer than 2 tokens and on options that make no spans.
SpanCounts span_counts(int64_t n, const CorruptSpansOptions& options);

/// Span corruption: Raffel et al. 2020, arXiv 1910.10683, section 3.1.4. Of n tokens round(rate n)
/// are taken out, at least 1 and at most n - 1, in round(that / mean_span) spans, at least 1; how
/// long the spans are and where they stand is drawn from all ways that are possible, with no span
/// empty and a token kept between any two. (T5's own program has a span end each sequence: of a
/// line that loses one span this would always be the last.) A function of its arguments. Throws
/// Error on fewer than 2 tokens, on a token that is a sentinel, and if there are too few sentinels.
CorruptedSpans corrupt_spans(const std::vector<int64_t>& tokens, const CorruptSpansOptions& options,
                             RandomKey key);

}  // namespace gradus::models
