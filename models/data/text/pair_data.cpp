#include "gradus/models/data/text/pair_data.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/reading.h"

namespace gradus::models {

std::vector<PairData::Entry> PairData::encode(const std::vector<TextPair>& pairs,
                                              const Tokenizer& source, const Tokenizer& target,
                                              const PairDataOptions& options, const char* kind) {
  check(options.max_source >= 1 && options.max_target >= 1,
        "PairData: expected max_source and max_target of at least 1 token, got ",
        options.max_source, " and ", options.max_target);
  std::vector<Entry> entries;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<int64_t> x = internal::encode(source, pairs[i].source,
                                                    "PairData: the source of ", kind, " ", i, ": "),
                               y = internal::encode(target, pairs[i].target,
                                                    "PairData: the target of ", kind, " ", i, ": ");
    if (x.empty() || y.empty()) {
      ++report_.empty;
    } else if (std::ssize(x) > options.max_source || std::ssize(y) > options.max_target) {
      ++report_.too_long;
    } else {
      const int64_t begin = std::ssize(tokens_), middle = begin + std::ssize(x);
      tokens_.insert(tokens_.end(), x.begin(), x.end());
      tokens_.insert(tokens_.end(), y.begin(), y.end());
      entries.push_back({begin, middle, std::ssize(tokens_), static_cast<int64_t>(i)});
    }
  }
  return entries;
}

PairData::PairData(const std::vector<TextPair>& pairs, const Tokenizer& source,
                   const Tokenizer& target, const PairDataOptions& options)
    : PairSource("PairData", source, target) {
  const std::vector<Entry> all = encode(pairs, source, target, options, "pair");
  std::vector<std::span<const int32_t>> sources;
  for (const Entry& entry : all)
    sources.push_back(std::span(tokens_).subspan(static_cast<size_t>(entry.source),
                                                 static_cast<size_t>(entry.target - entry.source)));
  const std::vector<bool> is_held_out = held_out(sources, options.validation, options.seed);
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Entry>& split = is_held_out[i] ? validation_ : train_;
    split.push_back(all[i]);
  }
  finish(source, target);
}

PairData::PairData(const std::vector<TextPair>& train, const std::vector<TextPair>& validation,
                   const Tokenizer& source, const Tokenizer& target, const PairDataOptions& options)
    : PairSource("PairData", source, target) {
  validation_ = encode(validation, source, target, options, "validation pair");
  std::set<std::vector<int32_t>> known;
  auto source_of = [&](const Entry& entry) {
    return std::vector<int32_t>(tokens_.begin() + entry.source, tokens_.begin() + entry.target);
  };
  for (const Entry& entry : validation_) known.insert(source_of(entry));
  for (const Entry& entry : encode(train, source, target, options, "training pair")) {
    if (known.contains(source_of(entry)))
      ++report_.held_out;
    else
      train_.push_back(entry);
  }
  finish(source, target);
}

void PairData::finish(const Tokenizer& source, const Tokenizer& target) {
  report_.train = num_pairs(Split::train);
  report_.validation = num_pairs(Split::validation);
  const int64_t source_unknown = source.has_special("[UNK]") ? source.special("[UNK]") : -1,
                target_unknown = target.has_special("[UNK]") ? target.special("[UNK]") : -1;
  for (const Split split : {Split::train, Split::validation})
    for (const Entry& entry : entries(split)) {
      const auto x = tokens_.begin() + entry.source, y = tokens_.begin() + entry.target,
                 end = tokens_.begin() + entry.end;
      report_.source_tokens += y - x;
      report_.target_tokens += end - y;
      report_.longest_source = std::max<int64_t>(report_.longest_source, y - x);
      report_.longest_target = std::max<int64_t>(report_.longest_target, end - y);
      report_.unknown_sources += std::count(x, y, source_unknown);
      report_.unknown_targets += std::count(y, end, target_unknown);
    }
  check(!train_.empty(), "PairData: no pairs are left to train: ", report_.validation,
        " are held out, ", report_.too_long, " too long, ", report_.empty, " empty, ",
        report_.held_out, " have held-out sources");
}

int64_t PairData::original(Split split, int64_t i) const {
  check(i >= 0 && i < num_pairs(split), "PairData: pair ", i, " is outside [0, ", num_pairs(split),
        ")");
  return entries(split)[static_cast<size_t>(i)].original;
}

PairSource::TokenPair PairData::pair(Split split, int64_t i, RandomKey) const {
  const Entry& entry = entries(split)[static_cast<size_t>(i)];
  const auto x = tokens_.begin() + entry.source, y = tokens_.begin() + entry.target,
             end = tokens_.begin() + entry.end;
  return {{x, y}, {y, end}};
}

}  // namespace gradus::models
