// BERT's pre-training examples: their structure, masking rates and disjoint splits.

#include "gradus/models/data/text/masked_pairs.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"

namespace masked_pairs_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::MaskedBatch;
using models::MaskedPairs;
using models::MaskedPairsOptions;
using models::Split;
using Ids = std::vector<int64_t>;

namespace {

const std::vector<std::string> special{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr int64_t PAD = 0, UNK = 1, CLS = 2, SEP = 3, MASK = 4;

/// Documents of lines of words; each word occurs once in the text: w0 w1 ....
std::string numbered(int documents, int lines, int words, int empty_lines = 1) {
  std::string text;
  int word = 0;
  for (int d = 0; d < documents; ++d) {
    for (int line = 0; line < lines + d % 3; ++line) {
      for (int i = 0; i < words + line % 2; ++i) text += "w" + std::to_string(word++) + " ";
      text += line % 2 ? "\r\n" : "\n";
    }
    text += std::string(static_cast<size_t>(empty_lines), '\n');
  }
  return text;
}

/// A row of a batch, with masked tokens restored.
struct Row {
  Ids a, b;
  bool is_next;
  int64_t told = 0, masked = 0, kept = 0;
};

/// Checks the invariants of a row and returns its content.
Row row_of(const MaskedBatch& batch, int64_t r) {
  const int64_t T = batch.ids.size(1);
  auto of = [&](const Tensor& x) { return x.select(0, r).to_vector<int64_t>(); };
  Ids ids = of(batch.ids);
  const Ids segments = of(batch.segments), targets = of(batch.targets);
  const auto mask = batch.mask.select(0, r).to_vector<bool>();
  Row row{{}, {}, batch.is_next.to_vector<int64_t>()[static_cast<size_t>(r)] == 1};
  int64_t separators = 0;
  REQUIRE(ids[0] == CLS);
  for (size_t t = 0; t < static_cast<size_t>(T); ++t) {
    const bool is_told = targets[t] != -100;
    if (is_told) {
      REQUIRE(targets[t] > MASK);  // no special token
      REQUIRE((ids[t] == MASK || ids[t] > MASK));
      ++row.told;
      row.masked += ids[t] == MASK;
      row.kept += ids[t] == targets[t];
      ids[t] = targets[t];
    }
    REQUIRE(ids[t] != MASK);
    REQUIRE(mask[t] == (separators < 2));
    REQUIRE(segments[t] == (separators == 1));
    REQUIRE((ids[t] == PAD) == (separators == 2));
    if (ids[t] == SEP)
      ++separators;
    else if (ids[t] != PAD && t > 0)
      (separators ? row.b : row.a).push_back(ids[t]);
  }
  REQUIRE(separators == 2);
  REQUIRE_FALSE(row.a.empty());
  REQUIRE_FALSE(row.b.empty());
  const auto n = static_cast<double>(row.a.size() + row.b.size());
  REQUIRE(row.told == std::max<int64_t>(1, std::llround(0.15 * n)));
  return row;
}

/// The index of a token's word in the text: 17 for w17.
int64_t place(const models::WordTokenizer& words, int64_t token) {
  return std::stoll(words.decode({token}).substr(1));
}

}  // namespace

TEST_CASE("masked pairs: both kinds of pairs, within one split", "[masked_pairs]") {
  const std::string text = numbered(40, 5, 6, 2);
  const models::WordTokenizer words(text, {.special = special});
  for (const int64_t segment : {0, 7}) {
    const MaskedPairs data(text, words, {.length = 32, .segment = segment});
    CHECK(data.report().documents == 40);
    CHECK(data.report().unknown == 0);
    CHECK(data.report().tokens == words.vocab_size() - 5);
    CHECK(data.report().train_tokens + data.report().validation_tokens == data.report().tokens);
    CHECK(std::abs(static_cast<double>(data.report().validation_tokens) /
                       static_cast<double>(data.report().tokens) -
                   0.1) < 0.02);
    const int64_t border = data.report().train_tokens;
    for (const Split split : {Split::train, Split::validation}) {
      int next = 0;
      std::set<int64_t> seen;
      const auto batch = data.random_batch(split, 2000, 1, 5);
      for (int64_t r = 0; r < 2000; ++r) {
        const Row row = row_of(batch, r);
        next += row.is_next;
        // A and B are each contiguous; B follows A or is far from it.
        auto check_piece = [&](const Ids& piece) {
          for (size_t i = 0; i < piece.size(); ++i) {
            const int64_t at = place(words, piece[i]);
            REQUIRE(at == place(words, piece[0]) + static_cast<int64_t>(i));
            REQUIRE((at < border) == (split == Split::train));
            seen.insert(at);
          }
        };
        check_piece(row.a);
        check_piece(row.b);
        const int64_t gap = place(words, row.b[0]) - place(words, row.a.back());
        REQUIRE((gap == 1) == row.is_next);
        REQUIRE(row.a.size() <= 14);
      }
      CHECK(std::abs(next - 1000) < 6 * 23);
      CHECK(std::ssize(seen) == (split == Split::train ? border : data.report().validation_tokens));
    }
  }
}

TEST_CASE("masked pairs: how many are masked, replaced, kept", "[masked_pairs]") {
  const std::string text = numbered(40, 8, 10);
  const models::WordTokenizer words(text, {.special = special});
  const MaskedPairs data(text, words, {.length = 64});
  int64_t told = 0, masked = 0, kept = 0;
  for (int64_t step = 0; step < 20; ++step) {
    const auto batch = data.random_batch(Split::train, 100, 9, step);
    for (int64_t r = 0; r < 100; ++r) {
      const Row row = row_of(batch, r);
      told += row.told, masked += row.masked, kept += row.kept;
    }
  }
  const auto n = static_cast<double>(told);
  CHECK(n > 10000);
  CHECK(std::abs(static_cast<double>(masked) - 0.8 * n) < 6 * std::sqrt(0.16 * n));
  CHECK(std::abs(static_cast<double>(kept) - 0.1 * n) < 6 * std::sqrt(0.09 * n) + 0.001 * n);

  const MaskedPairs all(text, words, {.length = 64, .rate = 1, .masked = 0, .random = 1});
  const auto batch = all.random_batch(Split::train, 200, 1, 0);
  std::map<int64_t, int> counts;
  const Ids ids = batch.ids.to_vector<int64_t>(), targets = batch.targets.to_vector<int64_t>();
  for (size_t i = 0; i < ids.size(); ++i) {
    CHECK((targets[i] == -100) == (ids[i] == CLS || ids[i] == SEP || ids[i] == PAD));
    if (targets[i] != -100) ++counts[ids[i]];
  }
  for (const int64_t one : {PAD, UNK, CLS, SEP, MASK})
    CHECK_FALSE((one > SEP && counts.contains(one)));
  CHECK(counts.size() > static_cast<size_t>(words.vocab_size()) * 9 / 10);
}

TEST_CASE("masked pairs: masks are drawn apart from the pairs", "[masked_pairs]") {
  // Eight starts, and rows of 8 words of which one is told: what a draw modulo 8 chose first must
  // not be what it chooses next.
  const std::string text = numbered(1, 9, 4);
  const models::WordTokenizer words(text, {.special = special});
  const MaskedPairs data(text, words,
                         {.length = 13, .rate = 0.1, .masked = 0.5, .random = 0, .validation = 0});
  std::map<int64_t, std::set<int64_t>> told_in;  // by the first word of a pair
  std::array<std::array<double, 2>, 2> counts{};
  for (int64_t step = 0; step < 20; ++step) {
    const auto batch = data.random_batch(Split::train, 200, 9, step);
    for (int64_t r = 0; r < 200; ++r) {
      const Ids ids = batch.ids.select(0, r).to_vector<int64_t>();
      const Ids targets = batch.targets.select(0, r).to_vector<int64_t>();
      const auto told = std::ranges::find_if(targets, [](int64_t t) { return t != -100; });
      const auto place = told - targets.begin();
      REQUIRE(told != targets.end());
      const bool is_masked = ids[static_cast<size_t>(place)] == MASK;
      const bool is_next = batch.is_next.to_vector<int64_t>()[static_cast<size_t>(r)] == 1;
      ++counts[is_next][is_masked];
      told_in[place == 1 ? *told : ids[1]].insert(place);
    }
  }
  for (const auto& [kept, masked] : counts) CHECK(std::abs(masked / (kept + masked) - 0.5) < 0.1);
  for (const auto& [first, places] : told_in) CHECK(places.size() >= 8);
}

TEST_CASE("masked pairs: batches depend only on split, seed, step and index", "[masked_pairs]") {
  const std::string text = numbered(20, 8, 10);
  const models::WordTokenizer words(text, {.special = special});
  const MaskedPairs data(text, words, {.length = 40});
  auto all = [](const MaskedBatch& b) {
    Ids ids = b.ids.to_vector<int64_t>();
    for (const Tensor& x : {b.segments, b.targets, b.is_next})
      for (const int64_t value : x.to_vector<int64_t>()) ids.push_back(value);
    return ids;
  };
  auto batch = [&](uint64_t seed, int64_t step, int64_t index) {
    return all(data.random_batch(Split::train, 8, seed, step, index));
  };
  const Ids one = batch(1, 2, 3);
  CHECK(batch(1, 2, 3) == one);
  CHECK(MaskedPairs(text, words, {.length = 40})
            .random_batch(Split::train, 8, 1, 2, 3)
            .ids.to_vector<int64_t>() == Ids(one.begin(), one.begin() + 320));
  CHECK(batch(2, 2, 3) != one);
  CHECK(batch(1, 3, 3) != one);
  CHECK(batch(1, 2, 4) != one);
  // Validation examples are the same on every call and at any batch size.
  const int64_t n = data.num_examples(Split::validation);
  const MaskedBatch whole = data.examples(Split::validation, 0, n);
  CHECK(whole.ids.size(0) == n);
  const Ids ids = whole.ids.to_vector<int64_t>(), targets = whole.targets.to_vector<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const MaskedBatch example = data.examples(Split::validation, i, 1);
    const Ids x = example.ids.to_vector<int64_t>(), y = example.targets.to_vector<int64_t>();
    CHECK(std::equal(x.begin(), x.end(), ids.begin() + i * 40));
    CHECK(std::equal(y.begin(), y.end(), targets.begin() + i * 40));
  }
  CHECK(data.examples(Split::validation, n - 1, 5).ids.size(0) == 1);
  CHECK_THROWS_WITH(data.examples(Split::validation, n, 1), Contains("outside"));
  CHECK_THROWS_WITH(data.examples(Split::validation, 0, 0), Contains("at least 1 example"));
  CHECK_THROWS_WITH(data.random_batch(Split::train, 0, 1, 0), Contains("batch"));
}

TEST_CASE("masked pairs: examples cover a whole split", "[masked_pairs]") {
  for (const int documents : {1, 2, 30}) {
    const std::string text = numbered(documents, 60 / documents, 5);
    const models::WordTokenizer words(text, {.special = special});
    const MaskedPairs data(text, words, {.length = 24, .validation = 0.3});
    for (const Split split : {Split::train, Split::validation}) {
      std::set<int64_t> seen;
      int64_t next = 0;
      const int64_t n = data.num_examples(split);
      const MaskedBatch batch = data.examples(split, 0, n);
      for (int64_t r = 0; r < n; ++r) {
        const Row row = row_of(batch, r);
        next += row.is_next;
        for (const int64_t token : row.a) seen.insert(place(words, token));
        if (row.is_next)
          for (const int64_t token : row.b) seen.insert(place(words, token));
      }
      CAPTURE(documents, n, next);
      CHECK(std::ssize(seen) ==
            (split == Split::train ? data.report().train_tokens : data.report().validation_tokens));
      CHECK(next > 0);
      CHECK(next < n);
    }
  }
}

TEST_CASE("masked pairs: a text is split after a document, or else after a line",
          "[masked_pairs]") {
  auto report = [](const std::string& text, const MaskedPairsOptions& options) {
    return MaskedPairs(text, models::WordTokenizer(text, {.special = special}), options).report();
  };
  // Of ten documents of three two-word lines, the last one is a tenth of the text. Of three
  // documents none ends near nine tenths of the text, so the cut is at the end of a line of the
  // last one.
  std::string ten, three;
  for (int d = 0; d < 10; ++d) ten += "a b\nc d\ne f\n\n";
  CHECK(report(ten, {.length = 11}).validation_tokens == 6);
  for (int d = 0; d < 3; ++d) {
    for (int i = 0; i < 20; ++i) three += "a b\n";
    three += " \t\n\n";
  }
  CHECK(report(three, {.length = 11}).validation_tokens == 12);
  CHECK(report(three, {.length = 11, .validation = 0.3}).validation_tokens == 40);
  CHECK(report(three, {.length = 11, .validation = 0}).validation_tokens == 0);
  // Long lines are cut into equal pieces of at most (11 - 3) / 2 tokens.
  CHECK(report("a b c d e f\n" + three, {.length = 11}).segments == 2 + 60);
  CHECK(report("alone\n\n" + three, {.length = 11}).lone == 1);
  CHECK(report(three, {.length = 11, .segment = 4}).segments == 30);
}

TEST_CASE("masked pairs: bad input is refused", "[masked_pairs]") {
  const std::string text = numbered(10, 5, 6);
  const models::WordTokenizer words(text, {.special = special});
  const models::CharTokenizer strict("ab\n", {"[PAD]", "[CLS]", "[SEP]", "[MASK]"});
  CHECK_THROWS_WITH(MaskedPairs(text, models::WordTokenizer(text)),
                    Contains("no special token \"[CLS]\""));
  CHECK_THROWS_WITH(MaskedPairs("ab\na\n\nx\n", strict), Contains("MaskedPairs: line 4: encode: "));
  CHECK_THROWS_WITH(MaskedPairs("", words), Contains("too little text to train"));
  CHECK_THROWS_WITH(MaskedPairs("w1\n\nw2\n\nw3\n", words), Contains("too little text to train"));
  CHECK_THROWS_WITH(MaskedPairs(numbered(1, 10, 3), words),
                    Contains("too little text to validate"));
  CHECK_NOTHROW(MaskedPairs("w1\nw2\nw3", words, {.validation = 0}));
  CHECK_THROWS_WITH(MaskedPairs("w1\nw2", words, {.validation = 0}), Contains("too little"));
  const MaskedPairs none(text, words, {.validation = 0});
  CHECK(none.num_examples(Split::validation) == 0);
  CHECK_THROWS_WITH(none.random_batch(Split::validation, 1, 1, 0), Contains("nothing is held out"));
  const double nan = std::nan("");
  for (const MaskedPairsOptions& bad :
       std::vector<MaskedPairsOptions>{{.length = 4},
                                       {.length = -1},
                                       {.length = std::numeric_limits<int64_t>::min()},
                                       {.segment = -1},
                                       {.length = 13, .segment = 6},
                                       {.rate = 0},
                                       {.rate = nan},
                                       {.rate = 1.1},
                                       {.masked = -0.1},
                                       {.masked = 0.9, .random = 0.2},
                                       {.validation = 1},
                                       {.validation = nan}})
    CHECK_THROWS_WITH(MaskedPairs(text, words, bad), Contains("MaskedPairs: expected"));
  CHECK_THROWS_WITH(MaskedPairs(text, words, {.length = 13, .segment = -1}),
                    "MaskedPairs: expected segments of 0 to 5 tokens in a length of 13, got -1");
  // Unknown words are counted and never predicted.
  const MaskedPairs unknown("x y w1\nw2\n\nz z z\nw3 w4\n", words, {.length = 13, .validation = 0});
  CHECK(unknown.report().unknown == 5);
  const auto batch = unknown.random_batch(Split::train, 50, 1, 0);
  for (int64_t r = 0; r < 50; ++r) {
    const Ids targets = batch.targets.select(0, r).to_vector<int64_t>();
    CHECK(std::count_if(targets.begin(), targets.end(), [](int64_t t) { return t >= 0; }) == 1);
    CHECK(std::count(targets.begin(), targets.end(), UNK) == 0);
  }
}

}  // namespace masked_pairs_test
