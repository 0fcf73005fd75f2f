#include "gradus/models/data/text/denoising.h"

#include <algorithm>
#include <set>
#include <span>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"

namespace gradus::models {

namespace {

CorruptSpansOptions span_options(const DenoisingOptions& o) {
  return {.rate = o.rate, .mean_span = o.mean_span};
}

std::string sentinel(int64_t i) { return "[X" + std::to_string(i) + "]"; }

/// As many as sequences of so many tokens need.
int64_t sentinels_for(const DenoisingOptions& o) {
  return span_counts(o.length, span_options(o)).spans + 1;
}

std::vector<int64_t> encode_line(const Tokenizer& tokenizer, const std::string& line,
                                 int64_t number) {
  try {
    return tokenizer.encode(line);
  } catch (const Error& e) {
    fail("DenoisingData: line ", number, ": ", e.what());
  }
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
  auto less = [](const auto& a, const auto& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  };
  std::set<std::span<const int32_t>, decltype(less)> known(less);
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
  for (size_t i = 0; i < all.size(); ++i) (is_held_out[i] ? validation_ : train_).push_back(all[i]);
  report_.train = std::ssize(train_);
  report_.validation = std::ssize(validation_);
  check(!train_.empty(), "DenoisingData: no sequences are left to train: ", report_.validation,
        " are held out, ", report_.too_short, " too short");
}

/// All lines, in pieces.
std::vector<DenoisingData::Range> DenoisingData::read(const std::string& text,
                                                      const Tokenizer& tokenizer, int64_t length) {
  std::vector<Range> all;
  int64_t number = 0;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    const std::vector<int64_t> ids = encode_line(tokenizer, line, ++number);
    const int64_t first = std::ssize(tokens_), n = std::ssize(ids),
                  pieces = (n + length - 1) / length;
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    for (int64_t i = 0; i < pieces; ++i) {
      const Range piece{first + n * i / pieces, first + n * (i + 1) / pieces};
      if (piece.end - piece.begin >= 2)
        all.push_back(piece);
      else
        ++report_.too_short;
    }
  }
  return all;
}

std::vector<int64_t> DenoisingData::sequence(Split part, int64_t i) const {
  check(i >= 0 && i < num_pairs(part), "DenoisingData: sequence ", i, " is outside [0, ",
        num_pairs(part), ")");
  const auto& [begin, end] = sequences(part)[static_cast<size_t>(i)];
  return {tokens_.begin() + begin, tokens_.begin() + end};
}

PairSource::TokenPair DenoisingData::pair(Split part, int64_t i, RandomKey key) const {
  CorruptedSpans corrupted = corrupt_spans(sequence(part, i), spans_, key);
  return {std::move(corrupted.source), std::move(corrupted.target)};
}

}  // namespace gradus::models
