// BERT's pre-training examples: which passages A and B are, and where a text is split, by hand.

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/masked_pairs.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"

namespace masked_passages_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::MaskedBatch;
using models::MaskedPairs;
using models::MaskedPairsOptions;
using models::Split;
using Ids = std::vector<int64_t>;

namespace {

const std::vector<std::string> special{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// Documents of these numbers of lines, with two words per line: w0 w1, w2 w3, ....
std::string documents(const std::vector<int>& lines) {
  std::string text;
  int word = 0;
  for (const int n : lines) {
    for (int line = 0; line < n; ++line, word += 2)
      text += "w" + std::to_string(word) + " w" + std::to_string(word + 1) + "\n";
    text += "\n";
  }
  return text;
}

/// A passage as the number of its first line and the number of the line after its last.
using Lines = std::pair<int64_t, int64_t>;
/// Passages A and B, and whether B is labelled as following A.
struct Example {
  Lines a, b;
  bool is_next;
  auto operator<=>(const Example&) const = default;
};

/// The distinct examples of many random rows.
std::set<Example> examples_of(const MaskedPairs& data, const models::WordTokenizer& words) {
  constexpr int64_t rows = 3000;
  const MaskedBatch batch = data.random_batch(Split::train, rows, 1, 0);
  const Ids ids = batch.ids.to_vector<int64_t>(), targets = batch.targets.to_vector<int64_t>(),
            segments = batch.segments.to_vector<int64_t>(),
            is_next = batch.is_next.to_vector<int64_t>();
  const int64_t T = batch.ids.size(1);
  std::set<Example> all;
  for (int64_t row = 0; row < rows; ++row) {
    std::array<Ids, 2> passages;  // numbers of the words
    for (int64_t t = row * T; t < (row + 1) * T; ++t) {
      const auto at = static_cast<size_t>(t);
      const int64_t id = targets[at] == -100 ? ids[at] : targets[at];
      if (!words.is_special(id))
        passages[static_cast<size_t>(segments[at])].push_back(
            std::stoll(words.decode({id}).substr(1)));
    }
    REQUIRE_FALSE((passages[0].empty() || passages[1].empty()));
    auto lines = [](const Ids& passage) {
      return Lines(passage.front() / 2, passage.back() / 2 + 1);
    };
    all.insert({lines(passages[0]), lines(passages[1]), is_next[static_cast<size_t>(row)] == 1});
  }
  return all;
}

}  // namespace

TEST_CASE("masked pairs: all examples of one document of three lines", "[masked_pairs]") {
  // A has one line: another one is left for a B that follows, and one more for a B that does not.
  const std::string text = documents({3});
  const models::WordTokenizer words(text, {.special = special});
  const MaskedPairs data(text, words, {.length = 64, .validation = 0});
  CHECK(examples_of(data, words) == std::set<Example>{{{0, 1}, {1, 3}, true},
                                                      {{0, 1}, {2, 3}, false},
                                                      {{1, 2}, {2, 3}, true},
                                                      {{1, 2}, {0, 1}, false}});
}

TEST_CASE("masked pairs: A fills half of an example, B the rest", "[masked_pairs]") {
  // Of 11 tokens three are special: A has four, two lines, and B has what A leaves of eight.
  for (const std::vector<int>& documents_of : {std::vector{6}, std::vector{4, 5, 3}}) {
    const std::string text = documents(documents_of);
    const models::WordTokenizer words(text, {.special = special});
    std::set<Example> expected;
    int64_t begin = 0;
    for (const int64_t n : documents_of) {
      const int64_t end = begin + n;
      for (int64_t first = begin; first + 1 < end; ++first) {
        const Lines a(first, std::min(first + 2, end - 1));
        const int64_t room = 4 - (a.second - a.first);
        expected.insert({a, {a.second, std::min(a.second + room, end)}, true});
        // B from elsewhere: in another document; with one document, before A or after B.
        int64_t other_begin = 0;
        for (const int64_t m : documents_of) {
          const int64_t other_end = other_begin + m;
          for (int64_t b = other_begin; b < other_end; ++b) {
            const bool is_own = other_begin == begin;
            if (is_own && (documents_of.size() > 1 || (b >= a.first && b <= a.second))) continue;
            const int64_t stop = is_own && b < a.first ? a.first : other_end;
            expected.insert({a, {b, std::min(b + room, stop)}, false});
          }
          other_begin = other_end;
        }
      }
      begin = end;
    }
    const MaskedPairs data(text, words, {.length = 11, .validation = 0});
    CHECK(examples_of(data, words) == expected);
  }
}

TEST_CASE("masked pairs: the nearest document boundary splits the text unless it is far off",
          "[masked_pairs]") {
  auto held_out = [](const std::vector<int>& lines, double share) {
    const std::string text = documents(lines);
    const models::WordTokenizer words(text, {.special = special});
    const MaskedPairs data(text, words, {.length = 11, .validation = share});
    for (const Split split : {Split::train, Split::validation}) {
      CHECK(data.random_batch(split, 50, 1, 0).ids.size(0) == 50);
      CHECK(data.examples(split, 0, 1).ids.size(0) == 1);
    }
    return data.report().validation_tokens;
  };
  // Of 64 tokens 16 are to be held out. A boundary is taken if it holds out 8 to 32.
  CHECK(held_out({16, 16}, 0.25) == 32);
  CHECK(held_out({15, 17}, 0.25) == 16);  // the nearest boundary is the end
  CHECK(held_out({28, 4}, 0.25) == 8);
  CHECK(held_out({29, 3}, 0.25) == 16);  // 6 would be held out
  CHECK(held_out({24, 8}, 0.25) == 16);
  CHECK(held_out({32}, 0.75) == 48);  // the nearest boundary would leave nothing to train
}

TEST_CASE("masked pairs: shortest and longest examples", "[masked_pairs]") {
  // A and B are one word each. Both kinds of pairs are equally likely.
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "w" + std::to_string(i) + "\n";
  const models::WordTokenizer words(text, {.special = special});
  const MaskedPairs data(text, words, {.length = 5, .validation = 0});
  const int64_t n = data.num_examples(Split::train);
  const double next = sum(data.examples(Split::train, 0, n).is_next.to(float64)).item();
  CHECK(n > 2000);
  CHECK(std::abs(next - static_cast<double>(n) / 2) < 6 * std::sqrt(static_cast<double>(n)) / 2);
  constexpr int64_t longest = 1 << 20;
  CHECK(MaskedPairs(text, words, {.length = longest, .validation = 0}).report().segments == 4000);
  CHECK_THROWS_WITH(MaskedPairs(text, words, {.length = longest + 1}),
                    Contains("a length of 5 to 2^20 tokens"));
}

TEST_CASE("masked pairs: segments of equal length ignore lines", "[masked_pairs]") {
  // A line break within a document is a character of it.
  const models::CharTokenizer letters("ab\n", {"[PAD]", "[CLS]", "[SEP]", "[MASK]"});
  const MaskedPairsOptions options{.length = 11, .segment = 4, .validation = 0};
  const auto report = MaskedPairs("ab\nba\nb\n\naaa\nbbb\n", letters, options).report();
  CHECK(report.documents == 2);
  CHECK(report.tokens == 7 + 7);
  CHECK(report.segments == 2 + 2);
  // An error names the document's first line.
  CHECK_THROWS_WITH(MaskedPairs("ab\nba\n\nab\nab\nx\n", letters, options),
                    Contains("MaskedPairs: line 4 and those that follow: encode: "));
  CHECK_THROWS_WITH(MaskedPairs("x\nba\n", letters, options), Contains("MaskedPairs: line 1 and"));
}

}  // namespace masked_passages_test
