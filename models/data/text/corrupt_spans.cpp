#include "gradus/models/data/text/corrupt_spans.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/draws.h"

namespace gradus::models {

namespace {

/// Splits n into `parts` random summands of at least 1: draws parts - 1 of the n - 1 positions
/// between units by selection sampling (Knuth, volume 2, algorithm 3.4.2 S).
std::vector<int64_t> random_sum(int64_t n, int64_t parts, internal::Draws& draws) {
  std::vector<int64_t> lengths{1};
  int64_t cuts = parts - 1;
  for (int64_t left = n - 1; left > 0; --left) {
    if (draws.below(left) < cuts) {
      lengths.push_back(0);
      --cuts;
    }
    ++lengths.back();
  }
  return lengths;
}

}  // namespace

SpanCounts span_counts(int64_t n, const CorruptSpansOptions& options) {
  check(n >= 2, "corrupt_spans: expected 2 tokens or more, got ", n);
  check(options.rate > 0 && options.rate < 1, "corrupt_spans: expected a rate in (0, 1), got ",
        options.rate);
  check(options.mean_span >= 1, "corrupt_spans: expected spans of 1 token or more on average, got ",
        options.mean_span);
  const int64_t taken =
      std::clamp<int64_t>(std::llround(options.rate * static_cast<double>(n)), 1, n - 1);
  const int64_t rounded = std::llround(static_cast<double>(taken) / options.mean_span);
  return {std::clamp<int64_t>(rounded, 1, std::min(taken, n - taken)), taken};
}

CorruptedSpans corrupt_spans(const std::vector<int64_t>& tokens, const CorruptSpansOptions& options,
                             RandomKey key) {
  const int64_t n = std::ssize(tokens), first = options.first_sentinel;
  const auto [spans, taken] = span_counts(n, options);
  check(spans < options.sentinels, "corrupt_spans: ", spans, " spans need ", spans + 1,
        " sentinels, got ", options.sentinels);
  check(first >= 0 && first <= std::numeric_limits<int64_t>::max() - options.sentinels,
        "corrupt_spans: expected ids in [0, 2^63 - 1) for ", options.sentinels, " sentinels, got ",
        first, " as the first");
  for (size_t i = 0; i < tokens.size(); ++i)
    check(tokens[i] < first || tokens[i] - first >= options.sentinels, "corrupt_spans: token ",
          tokens[i], " at position ", i, " is a sentinel");

  internal::Draws draws(key);
  // spans + 1 pieces are kept; the first and the last may be empty.
  const std::vector<int64_t> removed = random_sum(taken, spans, draws);
  std::vector<int64_t> kept = random_sum(n - taken + 2, spans + 1, draws);
  --kept.front();
  CorruptedSpans result;
  auto at = tokens.begin();
  for (size_t i = 0; i < removed.size(); ++i) {
    const int64_t sentinel = first + static_cast<int64_t>(i);
    result.source.insert(result.source.end(), at, at + kept[i]);
    at += kept[i];
    result.source.push_back(sentinel);
    result.target.push_back(sentinel);
    result.target.insert(result.target.end(), at, at + removed[i]);
    at += removed[i];
  }
  result.source.insert(result.source.end(), at, tokens.end());
  result.target.push_back(first + spans);
  return result;
}

}  // namespace gradus::models
