#include "gradus/models/data/text/masked_pairs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/draws.h"
#include "gradus/models/data/text/reading.h"

namespace gradus::models {

using internal::Draws;

namespace {

constexpr uint64_t key_of_examples = 0x1f83d9abfb41bd6bu;
constexpr double ignored = -100;  // cross_entropy's ignore_index

Draws draws_of_example(Split split, int64_t i) {
  return Draws({key_of_examples + (split == Split::train ? 0 : 1), static_cast<uint64_t>(i) << 32});
}

}  // namespace

MaskedPairs::MaskedPairs(const std::string& text, const Tokenizer& tokenizer,
                         const MaskedPairsOptions& options)
    : options_(options),
      pad_(tokenizer.special("[PAD]")),
      cls_(tokenizer.special("[CLS]")),
      sep_(tokenizer.special("[SEP]")),
      mask_(tokenizer.special("[MASK]")) {
  check(options.length >= 5 && options.length <= 1 << 20,
        "MaskedPairs: expected a length of 5 to 2^20 tokens, got ", options.length);
  const int64_t half = (options.length - 3) / 2, vocab = tokenizer.vocab_size();
  check(options.segment >= 0 && options.segment <= half, "MaskedPairs: expected segments of 0 to ",
        half, " tokens in a length of ", options.length, ", got ", options.segment);
  check(options.rate > 0 && options.rate <= 1, "MaskedPairs: expected a rate in (0, 1], got ",
        options.rate);
  check(options.masked >= 0 && options.random >= 0 && options.masked + options.random <= 1,
        "MaskedPairs: expected shares of masked and random tokens with a sum of at most 1, got ",
        options.masked, " and ", options.random);
  check(options.validation >= 0 && options.validation < 1,
        "MaskedPairs: expected a share for validation in [0, 1), got ", options.validation);
  check(vocab < int64_t{1} << 31, "MaskedPairs: expected less than 2^31 tokens, got ", vocab);
  is_special_.resize(static_cast<size_t>(vocab));
  for (int64_t id = 0; id < vocab; ++id)
    if (tokenizer.is_special(id))
      is_special_[static_cast<size_t>(id)] = true;
    else
      ordinary_.push_back(static_cast<int32_t>(id));
  read(text, tokenizer);
  prepare(train_, Split::train);
  if (options.validation > 0) prepare(validation_, Split::validation);
}

// ---- the text ----

void MaskedPairs::add_segments(const std::string& text, const Tokenizer& tokenizer, int64_t line) {
  const std::vector<int64_t> ids =
      internal::encode(tokenizer, text, "MaskedPairs: line ", line,
                       options_.segment ? " and those that follow: " : ": ");
  report_.unknown += tokenizer.count_unknown(ids);
  const int64_t before = std::ssize(tokens_);
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  const int64_t most = options_.segment ? options_.segment : (options_.length - 3) / 2;
  internal::for_equal_pieces(before, std::ssize(ids), most, [&](int64_t begin, int64_t end) {
    segments_.push_back({begin, end});
  });
}

void MaskedPairs::read(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<Range> documents;
  std::string document;
  int64_t number = 0, document_line = 0, first = 0;
  auto end_document = [&] {
    if (options_.segment > 0 && !document.empty()) add_segments(document, tokenizer, document_line);
    document.clear();
    if (std::ssize(segments_) > first) documents.push_back({first, std::ssize(segments_)});
    first = std::ssize(segments_);
  };
  for (size_t at = 0; at < text.size();) {
    const std::string line(internal::next_line(text, at));
    ++number;
    if (line.find_first_not_of(" \t\r\v\f") == std::string::npos) {
      end_document();
    } else if (options_.segment == 0) {
      add_segments(line, tokenizer, number);
    } else {
      if (document.empty()) document_line = number;
      document += (document.empty() ? "" : "\n") + line;
    }
  }
  end_document();
  report_.documents = std::ssize(documents);
  report_.segments = std::ssize(segments_);
  report_.tokens = std::ssize(tokens_);
  for (const Range& range : documents) report_.lone += range.last - range.first == 1;
  split(documents);
}

int64_t MaskedPairs::tokens_of(const Range& range) const {
  return segments_[static_cast<size_t>(range.last - 1)].end -
         segments_[static_cast<size_t>(range.first)].begin;
}

void MaskedPairs::split(const std::vector<Range>& documents) {
  const int64_t total = std::ssize(tokens_);
  const double target = options_.validation * static_cast<double>(total);
  const auto cut = static_cast<int64_t>(static_cast<double>(total) - target);
  auto fits = [&](int64_t at) {
    const auto held_out = static_cast<double>(total - at);
    return at > 0 && held_out > 0 && held_out >= target / 2 && held_out <= target * 2;
  };
  for (const Range& range : documents) {
    const int64_t begin = segments_[static_cast<size_t>(range.first)].begin,
                  end = begin + tokens_of(range);
    if (options_.validation == 0 || end <= cut) {
      train_.documents.push_back(range);
    } else if (begin >= cut) {
      validation_.documents.push_back(range);
    } else {  // the document contains the cut
      int64_t middle = cut - begin <= end - cut ? range.first : range.last;
      const int64_t nearest = middle == range.first ? begin : end;
      if (!fits(nearest)) {
        middle = range.first;
        while (segments_[static_cast<size_t>(middle)].end <= cut) ++middle;
      }
      if (middle > range.first) train_.documents.push_back({range.first, middle});
      if (middle < range.last) validation_.documents.push_back({middle, range.last});
    }
  }
  for (const Range& range : train_.documents) report_.train_tokens += tokens_of(range);
  for (const Range& range : validation_.documents) report_.validation_tokens += tokens_of(range);
}

// ---- examples ----

/// Returns the end of the longest run of segments that starts at `first`, stays below `last` and
/// has at most `tokens` tokens. The run has at least one segment.
int64_t MaskedPairs::fill(int64_t first, int64_t last, int64_t tokens) const {
  const int64_t most = segments_[static_cast<size_t>(first)].begin + tokens;
  int64_t end = first + 1;
  while (end < last && segments_[static_cast<size_t>(end)].end <= most) ++end;
  return end;
}

/// Returns the end of A's segments. A leaves one segment of its document for B and, if there is
/// only one document, another one for a B from elsewhere.
int64_t MaskedPairs::end_of_a(const SplitData& data, const Example& example) const {
  const Range& document = data.documents[static_cast<size_t>(example.document)];
  int64_t last = document.last - 1;
  if (data.documents.size() == 1)
    last = std::min(last, example.first + document.last - document.first - 2);
  return fill(example.first, last, (options_.length - 3) / 2);
}

/// Returns the segments available to a random B that does not follow A: B starts with the first of
/// them and ends at the latest with the last.
MaskedPairs::Range MaskedPairs::elsewhere(const SplitData& data, const Example& example,
                                          int64_t end_of_a, Draws& draws) const {
  const Range& document = data.documents[static_cast<size_t>(example.document)];
  if (data.documents.size() == 1) {
    // Any segment except A's and the one after A.
    const int64_t others = document.last - document.first - (end_of_a + 1 - example.first);
    const int64_t first = document.first + draws.below(others);
    if (first < example.first) return {first, example.first};
    return {first + end_of_a + 1 - example.first, document.last};
  }
  // The segments of a split are consecutive.
  const int64_t begin = data.documents.front().first, end = data.documents.back().last,
                own = document.last - document.first;
  int64_t first = begin + draws.below(end - begin - own);
  if (first >= document.first) first += own;
  const auto range =
      std::upper_bound(data.documents.begin(), data.documents.end(), first,
                       [](int64_t place, const Range& one) { return place < one.last; });
  return {first, range->last};
}

void MaskedPairs::prepare(SplitData& data, Split split) const {
  for (int64_t d = 0; d < std::ssize(data.documents); ++d) {
    const Range& document = data.documents[static_cast<size_t>(d)];
    for (int64_t first = document.first; first + 1 < document.last; ++first)
      data.starts.push_back({d, first, true});
  }
  const bool enough =
      !data.starts.empty() && (data.documents.size() > 1 || data.starts.size() >= 2);
  check(enough, "MaskedPairs: too little text to ", split == Split::train ? "train" : "validate",
        ": ", data.documents.size(), " documents, ", data.starts.size(),
        " segments that another one follows, where 1 in two documents or 2 in one are needed",
        options_.segment > 0 ? "" : "; each line is a segment, an empty line ends a document");
  for (int64_t d = 0; d < std::ssize(data.documents); ++d) {
    const Range& document = data.documents[static_cast<size_t>(d)];
    for (int64_t first = document.first; first + 1 < document.last;) {
      Draws draws = draws_of_example(split, std::ssize(data.examples));
      const Example example{d, first, draws.uniform() < 0.5};
      data.examples.push_back(example);
      const int64_t b = end_of_a(data, example);
      const int64_t a_tokens = tokens_of({first, b});
      first = example.is_next ? fill(b, document.last, options_.length - 3 - a_tokens) : b;
      // Only one segment is left: pair it with the one before.
      if (first + 1 == document.last) data.examples.push_back({d, first - 1, true});
    }
  }
}

MaskedBatch MaskedPairs::empty_batch(int64_t rows) const {
  const Shape shape{rows, options_.length};
  return {full(shape, static_cast<double>(pad_), int64), zeros(shape, int64), zeros(shape, boolean),
          full(shape, ignored, int64), empty({rows}, int64)};
}

void MaskedPairs::mask_row(int64_t length, Draws& draws, int64_t* ids, int64_t* targets) const {
  std::vector<int64_t> positions;
  for (int64_t t = 0; t < length; ++t)
    if (!is_special_[static_cast<size_t>(ids[t])]) positions.push_back(t);
  if (positions.empty()) return;  // only [UNK]
  const int64_t n = std::ssize(positions);
  const int64_t chosen = std::max<int64_t>(1, std::llround(options_.rate * static_cast<double>(n)));
  for (int64_t i = 0; i < chosen; ++i) {
    std::swap(positions[static_cast<size_t>(i)],
              positions[static_cast<size_t>(i + draws.below(n - i))]);
    const int64_t t = positions[static_cast<size_t>(i)];
    targets[t] = ids[t];
    const double fate = draws.uniform();
    if (fate < options_.masked)
      ids[t] = mask_;
    else if (fate < options_.masked + options_.random)
      ids[t] = ordinary_[static_cast<size_t>(draws.below(std::ssize(ordinary_)))];
  }
}

void MaskedPairs::write_row(const SplitData& data, const Example& example, Draws& draws,
                            const MaskedBatch& batch, int64_t row) const {
  const int64_t T = options_.length, end_a = end_of_a(data, example);
  const Range& document = data.documents[static_cast<size_t>(example.document)];
  const Range follows{end_a, document.last};
  const Range rest = example.is_next ? follows : elsewhere(data, example, end_a, draws);
  const Range a{example.first, end_a};
  const Range b{rest.first, fill(rest.first, rest.last, T - 3 - tokens_of(a))};

  int64_t* ids = batch.ids.data<int64_t>() + row * T;
  int64_t* segments = batch.segments.data<int64_t>() + row * T;
  int64_t t = 0;
  auto add = [&](const Range& range) {
    const auto from = tokens_.begin() + segments_[static_cast<size_t>(range.first)].begin;
    std::copy_n(from, tokens_of(range), ids + t);
    t += tokens_of(range);
    ids[t++] = sep_;
  };
  ids[t++] = cls_;
  add(a);
  const int64_t middle = t;
  add(b);
  std::fill(segments + middle, segments + t, 1);
  std::fill_n(batch.mask.data<bool>() + row * T, t, true);
  batch.is_next.data<int64_t>()[row] = example.is_next;
  mask_row(t, draws, ids, batch.targets.data<int64_t>() + row * T);
}

MaskedBatch MaskedPairs::random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                                      int64_t index) const {
  const RandomKey key =
      internal::batch_key("MaskedPairs", "examples", {split, batch, seed, step, index});
  const SplitData& data = of(split);
  check(!data.starts.empty(), "MaskedPairs: nothing is held out");
  const MaskedBatch out = empty_batch(batch);
  for (int64_t row = 0; row < batch; ++row) {
    Draws draws = internal::row_draws(key, row);
    Example example = data.starts[static_cast<size_t>(draws.below(std::ssize(data.starts)))];
    example.is_next = draws.uniform() < 0.5;
    write_row(data, example, draws, out, row);
  }
  return out;
}

MaskedBatch MaskedPairs::examples(Split split, int64_t first, int64_t batch) const {
  check(first >= 0 && first < num_examples(split), "MaskedPairs: example ", first,
        " is outside [0, ", num_examples(split), ")");
  check(batch >= 1, "MaskedPairs: expected a batch of at least 1 example, got ", batch);
  const int64_t rows = std::min(batch, num_examples(split) - first);
  const MaskedBatch out = empty_batch(rows);
  for (int64_t row = 0; row < rows; ++row) {
    Draws draws = draws_of_example(split, first + row);
    draws.uniform();  // skips the number that prepare() drew for is_next
    write_row(of(split), of(split).examples[static_cast<size_t>(first + row)], draws, out, row);
  }
  return out;
}

}  // namespace gradus::models
