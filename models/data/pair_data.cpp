#include "gradus/models/data/pair_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "gradus/core/error.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/models/data/draws.h"

namespace gradus::models {

namespace {

constexpr uint64_t key_of_split = 0x6c62272e07bb0142u;
constexpr double ignored = -100;  // cross_entropy's ignore_index

std::vector<int64_t> encode_side(const Tokenizer& tokenizer, const std::string& text,
                                 const char* side, size_t pair) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& e) {
    fail("PairData: the ", side, " of pair ", pair, ": ", e.what());
  }
}

}  // namespace

PairData::PairData(const Tokenizer& source, const Tokenizer& target)
    : source_pad_(source.special("[PAD]")),
      target_pad_(target.special("[PAD]")),
      start_(target.special("[START]")),
      end_(target.special("[END]")) {
  for (const Tokenizer* one : {&source, &target})
    check(one->vocab_size() < int64_t{1} << 31,
          "PairData: expected a vocabulary of less than 2^31 ", "tokens, got ", one->vocab_size());
}

std::vector<PairData::Place> PairData::encode(const std::vector<TextPair>& pairs,
                                              const Tokenizer& source, const Tokenizer& target,
                                              const PairDataOptions& options) {
  check(options.max_source >= 1 && options.max_target >= 1,
        "PairData: expected maxima of 1 token or more, got ", options.max_source, " and ",
        options.max_target);
  std::vector<Place> places;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<int64_t> x = encode_side(source, pairs[i].source, "source", i),
                               y = encode_side(target, pairs[i].target, "target", i);
    if (x.empty() || y.empty()) {
      ++report_.empty;
    } else if (std::ssize(x) > options.max_source || std::ssize(y) > options.max_target) {
      ++report_.too_long;
    } else {
      const int64_t begin = std::ssize(tokens_), middle = begin + std::ssize(x);
      tokens_.insert(tokens_.end(), x.begin(), x.end());
      tokens_.insert(tokens_.end(), y.begin(), y.end());
      places.push_back({begin, middle, std::ssize(tokens_), static_cast<int64_t>(i)});
    }
  }
  return places;
}

PairData::PairData(const std::vector<TextPair>& pairs, const Tokenizer& source,
                   const Tokenizer& target, const PairDataOptions& options)
    : PairData(source, target) {
  check(options.validation >= 0 && options.validation < 1,
        "PairData: expected a share for validation in [0, 1), got ", options.validation);
  const std::vector<Place> all = encode(pairs, source, target, options);
  // Sources in the order of their tokens, so that the split does not depend on the pairs' order;
  // the held-out ones are the first of a random order of theirs.
  auto source_of = [&](const Place& place) {
    return std::span(tokens_).subspan(static_cast<size_t>(place.source),
                                      static_cast<size_t>(place.target - place.source));
  };
  auto less = [](const auto& a, const auto& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  };
  std::map<std::span<int32_t>, int64_t, decltype(less)> sources(less);
  for (const Place& place : all) sources.emplace(source_of(place), 0);
  int64_t count = 0;
  for (auto& [tokens, number] : sources) number = count++;
  const auto held_out =
      static_cast<int64_t>(std::llround(options.validation * static_cast<double>(count)));
  const Tensor order = randperm(count, {options.seed ^ key_of_split, 0});
  std::vector<bool> is_held_out(static_cast<size_t>(count));
  for (int64_t i = 0; i < held_out; ++i)
    is_held_out[static_cast<size_t>(order.data<int64_t>()[i])] = true;
  for (const Place& place : all) {
    const auto number = static_cast<size_t>(sources.at(source_of(place)));
    (is_held_out[number] ? validation_ : train_).push_back(place);
  }
  finish(source, target);
}

PairData::PairData(const std::vector<TextPair>& train, const std::vector<TextPair>& validation,
                   const Tokenizer& source, const Tokenizer& target, const PairDataOptions& options)
    : PairData(source, target) {
  validation_ = encode(validation, source, target, options);
  std::map<std::vector<int32_t>, bool> held_out;
  auto source_of = [&](const Place& place) {
    return std::vector<int32_t>(tokens_.begin() + place.source, tokens_.begin() + place.target);
  };
  for (const Place& place : validation_) held_out[source_of(place)] = true;
  for (const Place& place : encode(train, source, target, options)) {
    if (held_out.contains(source_of(place)))
      ++report_.held_out;
    else
      train_.push_back(place);
  }
  finish(source, target);
}

void PairData::finish(const Tokenizer& source, const Tokenizer& target) {
  report_.train = num_pairs(Part::train);
  report_.validation = num_pairs(Part::validation);
  const int64_t source_unknown = source.has_special("[UNK]") ? source.special("[UNK]") : -1,
                target_unknown = target.has_special("[UNK]") ? target.special("[UNK]") : -1;
  for (const Part part : {Part::train, Part::validation})
    for (const Place& place : places(part)) {
      const auto x = tokens_.begin() + place.source, y = tokens_.begin() + place.target,
                 end = tokens_.begin() + place.end;
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

int64_t PairData::original(Part part, int64_t i) const {
  check(i >= 0 && i < num_pairs(part), "PairData: pair ", i, " is outside [0, ", num_pairs(part),
        ")");
  return places(part)[static_cast<size_t>(i)].original;
}

PairBatch PairData::gather(Part part, const std::vector<int64_t>& rows) const {
  int64_t longest_source = 0, longest_target = 0;
  for (const int64_t row : rows) {
    const Place& place = places(part)[static_cast<size_t>(row)];
    longest_source = std::max(longest_source, place.target - place.source);
    longest_target = std::max(longest_target, place.end - place.target);
  }
  const int64_t B = std::ssize(rows), S = longest_source, T = longest_target + 1;
  PairBatch batch{full({B, S}, static_cast<double>(source_pad_), int64), empty({B}, int64),
                  full({B, T}, static_cast<double>(target_pad_), int64),
                  full({B, T}, ignored, int64)};
  for (int64_t b = 0; b < B; ++b) {
    const Place& place = places(part)[static_cast<size_t>(rows[static_cast<size_t>(b)])];
    const auto x = tokens_.begin() + place.source, y = tokens_.begin() + place.target,
               end = tokens_.begin() + place.end;
    std::copy(x, y, batch.source.data<int64_t>() + b * S);
    batch.source_lengths.data<int64_t>()[b] = y - x;
    int64_t* inputs = batch.inputs.data<int64_t>() + b * T;
    *inputs = start_;
    std::copy(y, end, inputs + 1);
    *std::copy(y, end, batch.targets.data<int64_t>() + b * T) = end_;
  }
  return batch;
}

PairBatch PairData::random_batch(Part part, int64_t batch, uint64_t seed, int64_t step,
                                 int64_t index) const {
  const RandomKey key = detail::batch_key("PairData", "pairs", part, batch, seed, step, index);
  check(num_pairs(part) > 0, "PairData: no pairs are held out");
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < batch; ++i) rows.push_back(detail::row_choice(key, i, num_pairs(part)));
  return gather(part, rows);
}

PairBatch PairData::pairs(Part part, int64_t first, int64_t batch) const {
  check(first >= 0 && first < num_pairs(part), "PairData: pair ", first, " is outside [0, ",
        num_pairs(part), ")");
  check(batch >= 1, "PairData: expected a batch of at least 1 pair, got ", batch);
  std::vector<int64_t> rows;
  for (int64_t i = first; i < first + std::min(batch, num_pairs(part) - first); ++i)
    rows.push_back(i);
  return gather(part, rows);
}

}  // namespace gradus::models
