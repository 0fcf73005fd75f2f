#include "gradus/models/data/text/denoising.h"

#include <algorithm>
#include <set>
#include <span>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/reading.h"

namespace gradus::models {

namespace {

CorruptSpansOptions span_options(const DenoisingOptions& o) {
  return {.rate = o.rate, .mean_span = o.mean_span};
}

std::string sentinel(int64_t i) { return "[X" + std::to_string(i) + "]"; }

/// Number of sentinels that sequences of o.length tokens need.
int64_t sentinels_for(const DenoisingOptions& o) {
  check(o.length >= 2, "DenoisingData: expected a length of 2 tokens or more, got ", o.length);
  return span_counts(o.length, span_options(o)).spans + 1;
}

}  // namespace

std::vector<std::string> DenoisingData::special_tokens(const DenoisingOptions& options) {
  std::vector<std::string> names{"[PAD]", "[UNK]", "[START]", "[END]"};
  for (int64_t i = 0; i < sentinels_for(options); ++i) names.push_back(sentinel(i));
  return names;
}

DenoisingData::DenoisingData(const std::string& text, const Tokenizer& tokenizer,
                             const DenoisingOptions& options)
    : PairSource("DenoisingData", tokenizer, tokenizer), spans_(span_options(options)) {
  const int64_t needed = sentinels_for(options);
  for (int64_t i = 0; i < needed; ++i) {
    check(tokenizer.has_special(sentinel(i)), "DenoisingData: sequences of ", options.length,
          " tokens need the sentinels [X0] to ", sentinel(needed - 1), ", the tokenizer lacks ",
          sentinel(i));
    if (i == 0) spans_.first_sentinel = tokenizer.special(sentinel(0));
    check(tokenizer.special(sentinel(i)) == spans_.first_sentinel + i,
          "DenoisingData: ", sentinel(i), " does not follow ", sentinel(i - 1),
          " in the tokenizer");
  }
  spans_.sentinels = needed;

  std::vector<Range> all = read(text, tokenizer, options.length);
  auto tokens_of = [this](const Range& range) {
    return std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(range.begin),
                                                     static_cast<size_t>(range.end - range.begin));
  };
  std::set<std::span<const int32_t>, internal::TokensLess> known;
  report_.repeated = std::erase_if(
      all, [&](const Range& range) { return !known.insert(tokens_of(range)).second; });
  std::vector<std::span<const int32_t>> sequences;
  for (const Range& range : all) {
    const int64_t n = range.end - range.begin;
    sequences.push_back(tokens_of(range));
    report_.tokens += n;
    if (tokenizer.has_special("[UNK]"))
      report_.unknown += std::ranges::count(sequences.back(), tokenizer.special("[UNK]"));
    const auto [spans, taken] = span_counts(n, spans_);
    report_.longest_target = std::max(report_.longest_target, taken + spans + 1);
  }
  const std::vector<bool> is_held_out = held_out(sequences, options.validation, options.seed);
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Range>& split = is_held_out[i] ? validation_ : train_;
    split.push_back(all[i]);
  }
  report_.train = std::ssize(train_);
  report_.validation = std::ssize(validation_);
  check(!train_.empty(), "DenoisingData: no sequences are left to train: ", report_.validation,
        " are held out, ", report_.too_short, " too short");
}

/// Encodes each line and cuts it into equal pieces of at most `length` tokens.
std::vector<DenoisingData::Range> DenoisingData::read(const std::string& text,
                                                      const Tokenizer& tokenizer, int64_t length) {
  std::vector<Range> all;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string line(internal::next_line(text, at));
    const std::vector<int64_t> ids =
        internal::encode(tokenizer, line, "DenoisingData: line ", ++number, ": ");
    const int64_t first = std::ssize(tokens_);
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    internal::for_equal_pieces(first, std::ssize(ids), length, [&](int64_t begin, int64_t end) {
      if (end - begin >= 2)
        all.push_back({begin, end});
      else
        ++report_.too_short;
    });
  }
  return all;
}

std::vector<int64_t> DenoisingData::sequence(Split split, int64_t i) const {
  check(i >= 0 && i < num_pairs(split), "DenoisingData: sequence ", i, " is outside [0, ",
        num_pairs(split), ")");
  const auto& [begin, end] = sequences(split)[static_cast<size_t>(i)];
  return {tokens_.begin() + begin, tokens_.begin() + end};
}

PairSource::TokenPair DenoisingData::pair(Split split, int64_t i, RandomKey key) const {
  CorruptedSpans corrupted = corrupt_spans(sequence(split, i), spans_, key);
  return {std::move(corrupted.source), std::move(corrupted.target)};
}

}  // namespace gradus::models
