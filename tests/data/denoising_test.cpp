// Denoising: restoring lines with spans removed.

#include "gradus/models/data/text/denoising.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"

namespace denoising_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::CharTokenizer;
using models::DenoisingData;
using models::Split;
using Ids = std::vector<int64_t>;

namespace {

/// Lines of 1 to 60 letters, each twice.
std::string lines(int count) {
  std::string text;
  for (int copy = 0; copy < 2; ++copy)
    for (int i = 0; i < count; ++i) {
      for (int k = 0, x = i; k < 1 + i % 60; ++k, x = (x * 37 + 11) % 9973)
        text += static_cast<char>('a' + x % 26);
      text += '\n';
    }
  return text;
}

/// A row without its padding.
Ids row(const Tensor& ids, int64_t i, int64_t padding) {
  Ids tokens = ids[i].to_vector<int64_t>();
  std::erase(tokens, padding);
  return tokens;
}

}  // namespace

TEST_CASE("denoising: a batch by hand", "[denoising]") {
  // With a rate of 1/2 and spans of one token, the removed tokens are determined.
  const models::DenoisingOptions options{.length = 6, .rate = 0.5, .mean_span = 1, .validation = 0};
  const auto special = DenoisingData::special_tokens(options);
  CHECK(special == std::vector<std::string>{"[PAD]", "[UNK]", "[START]", "[END]", "[X0]", "[X1]",
                                            "[X2]", "[X3]"});
  const CharTokenizer tokenizer("abcdefghijklmn", special);
  // Empty, one-letter and repeated lines are skipped. The last line is cut in two.
  const DenoisingData data("abcdef\r\n\na\nab?\nabcdef\nabghijkl", tokenizer, options);
  CHECK(data.report().train == 4);
  CHECK(data.report().validation == 0);
  CHECK(data.report().too_short == 1);
  CHECK(data.report().repeated == 1);
  CHECK(data.report().tokens == 6 + 3 + 4 + 4);
  CHECK(data.report().unknown == 1);
  CHECK(data.longest_target() == 3 + 3 + 1);
  CHECK(data.sequence(Split::train, 0) == tokenizer.encode("abcdef"));
  CHECK(data.sequence(Split::train, 1) == tokenizer.encode("ab?"));
  CHECK(data.sequence(Split::train, 2) == tokenizer.encode("abgh"));
  CHECK(data.sequence(Split::train, 3) == tokenizer.encode("ijkl"));
  const models::PairBatch batch = data.pairs(Split::train, 2, 9);
  CHECK(batch.source.shape() == Shape{2, 4});
  CHECK(tokenizer.decode(batch.source[0].to_vector<int64_t>()) == "[X0]bg[X1]");
  CHECK(tokenizer.decode(batch.inputs[0].to_vector<int64_t>()) == "[START][X0]a[X1]h[X2]");
  CHECK(tokenizer.decode(batch.targets[0].to_vector<int64_t>()) == "[X0]a[X1]h[X2][END]");
  const models::PairBatch padded = data.pairs(Split::train, 0, 2);
  CHECK(tokenizer.decode(padded.source[0].to_vector<int64_t>()) == "[X0]b[X1]de[X2]");
  CHECK(padded.source_lengths.to_vector<int64_t>() == Ids{6, 2});
  CHECK(padded.inputs.shape() == Shape{2, 8});
  CHECK(tokenizer.decode(row(padded.targets, 0, -100)) == "[X0]a[X1]c[X2]f[X3][END]");
  const DenoisingData two("ab\nc\n", tokenizer, options);
  CHECK(two.report().train == 1);
  CHECK(two.sequence(Split::train, 0) == tokenizer.encode("ab"));
  CHECK_THROWS_WITH(data.sequence(Split::train, 4), Contains("outside [0, 4)"));
  CHECK_THROWS_WITH(data.pairs(Split::validation, 0, 1), Contains("outside [0, 0)"));
  CHECK_THROWS_WITH(data.random_batch(Split::validation, 1, 1, 0), Contains("held out"));
}

TEST_CASE("denoising: source and target restore lines of their split", "[denoising]") {
  const std::string text = lines(400);
  const models::DenoisingOptions options{.length = 40, .validation = 0.25, .seed = 7};
  const CharTokenizer tokenizer(text, DenoisingData::special_tokens(options));
  const DenoisingData data(text, tokenizer, options);
  std::set<Ids> splits[2];
  for (const Split split : {Split::train, Split::validation})
    for (int64_t i = 0; i < data.num_pairs(split); ++i)
      CHECK(splits[split == Split::validation].insert(data.sequence(split, i)).second);
  const auto& [train, validation] = splits;
  CHECK(train.size() > 300);
  CHECK(std::ssize(validation) ==
        std::llround(0.25 * static_cast<double>(train.size() + validation.size())));
  for (const Ids& sequence : validation) CHECK_FALSE(train.contains(sequence));

  const int64_t pad = tokenizer.special("[PAD]"), first = tokenizer.special("[X0]");
  for (const Split split : {Split::train, Split::validation}) {
    const models::PairBatch batch = data.random_batch(split, 200, 3, 4);
    for (int64_t b = 0; b < 200; ++b) {
      std::map<int64_t, Ids> spans;
      Ids targets = row(batch.targets, b, -100), whole;
      REQUIRE(targets.back() == tokenizer.special("[END]"));
      targets.pop_back();
      REQUIRE(std::ssize(targets) <= data.longest_target());
      int64_t sentinel = -1;
      for (const int64_t id : targets)
        if (id >= first && tokenizer.is_special(id))
          spans[sentinel = id];
        else
          spans[sentinel].push_back(id);
      for (const int64_t id : row(batch.source, b, pad))
        if (tokenizer.is_special(id))
          whole.insert(whole.end(), spans.at(id).begin(), spans.at(id).end());
        else
          whole.push_back(id);
      REQUIRE(splits[split == Split::validation].contains(whole));
    }
  }
}

TEST_CASE("denoising: batches depend only on their arguments", "[denoising]") {
  const std::string text = lines(400);
  const CharTokenizer tokenizer(text, DenoisingData::special_tokens());
  const DenoisingData data(text, tokenizer), again(text, tokenizer);
  auto ids = [](const models::PairBatch& batch) {
    Ids all = batch.source.to_vector<int64_t>();
    for (const Tensor& x : {batch.source_lengths, batch.inputs, batch.targets})
      for (const int64_t id : x.to_vector<int64_t>()) all.push_back(id);
    return all;
  };
  auto batch = [&](uint64_t seed, int64_t step, int64_t index, Split split = Split::train) {
    return ids(data.random_batch(split, 16, seed, step, index));
  };
  CHECK(batch(1, 2, 3) == batch(1, 2, 3));
  CHECK(batch(1, 2, 3) == ids(again.random_batch(Split::train, 16, 1, 2, 3)));
  CHECK(batch(1, 2, 3) != batch(2, 2, 3));
  CHECK(batch(1, 2, 3) != batch(1, 3, 3));
  CHECK(batch(1, 2, 3) != batch(1, 2, 4));
  CHECK(batch(1, 2, 3) != batch(1, 2, 3, Split::validation));
  CHECK(ids(data.pairs(Split::validation, 3, 5)) == ids(again.pairs(Split::validation, 3, 5)));
  // A pair is the same in every batch; each pair has its own spans.
  const auto one = data.pairs(Split::validation, 4, 1), more = data.pairs(Split::validation, 3, 5);
  CHECK(row(one.targets, 0, -100) == row(more.targets, 1, -100));
  // The two splits remove other spans.
  std::string alphabets;  // 20 rotated alphabets
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 26; ++k) alphabets += static_cast<char>('a' + (i + k) % 26);
    alphabets += '\n';
  }
  const DenoisingData halves(alphabets, tokenizer, {.validation = 0.5});
  auto gaps = [&](Split split) {
    const Ids source = halves.pairs(split, 0, 10).source.to_vector<int64_t>();
    Ids places;
    for (size_t i = 0; i < source.size(); ++i)
      if (source[i] == tokenizer.special("[X0]")) places.push_back(static_cast<int64_t>(i));
    return places;
  };
  CHECK(gaps(Split::train).size() == 10);
  CHECK(gaps(Split::train) != gaps(Split::validation));
  // The seed decides which half of the lines is held out.
  auto held_out = [&](const models::DenoisingOptions& options) {
    const DenoisingData seeded(alphabets, tokenizer, options);
    std::vector<Ids> all;
    for (int64_t i = 0; i < 10; ++i) all.push_back(seeded.sequence(Split::validation, i));
    return all;
  };
  CHECK(held_out({.validation = 0.5}) == held_out({.validation = 0.5, .seed = 0}));
  CHECK(held_out({.validation = 0.5}) != held_out({.validation = 0.5, .seed = 1}));
  // The spans of a line differ between batches.
  const std::string line = "abcdefghijklmnopqrstuvwxyz";
  const DenoisingData single(line, tokenizer, {.validation = 0});
  std::set<Ids> seen;
  for (int64_t step = 0; step < 30; ++step)
    seen.insert(ids(single.random_batch(Split::train, 1, 1, step)));
  CHECK(seen.size() > 15);  // of 23 possible positions of a span of four
}

TEST_CASE("denoising: bad input is refused", "[denoising]") {
  const CharTokenizer plain("abc"), none("abc", {"[PAD]", "[START]", "[END]"}),
      few("abc", {"[PAD]", "[START]", "[END]", "[X0]"}),
      apart("abc", {"[PAD]", "[X0]", "[START]", "[X1]", "[END]"}),
      good("abc", {"[PAD]", "[START]", "[END]", "[X0]", "[X1]"});
  const models::DenoisingOptions o{.length = 8, .validation = 0};
  CHECK_THROWS_WITH(DenoisingData("abc", plain, o), Contains("no special token \"[PAD]\""));
  CHECK_THROWS_WITH(DenoisingData("abc", none, o),
                    Contains("[X0] to [X1]") && Contains("lacks [X0]"));
  CHECK_THROWS_WITH(DenoisingData("abc", few, o), Contains("lacks [X1]"));
  CHECK_THROWS_WITH(DenoisingData("abc", apart, o), Contains("[X1] does not follow [X0]"));
  CHECK_THROWS_WITH(DenoisingData("abc\nabd", good, o),
                    Contains("DenoisingData: line 2: ") && Contains("\"d\""));
  CHECK_THROWS_WITH(DenoisingData("ab\xff", good, o), Contains("DenoisingData: line 1: "));
  for (const char* text : {"", "\n\r\n", "a\nb"})
    CHECK_THROWS_WITH(DenoisingData(text, good, o), Contains("no sequences are left to train"));
  for (const double share : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_WITH(DenoisingData("abc", good, {.length = 8, .validation = share}),
                      Contains("DenoisingData: ") && Contains("[0, 1)"));
  for (const int64_t length : {-1, 0, 1})
    CHECK_THROWS_WITH(
        DenoisingData("abc", good, {.length = length}),
        "DenoisingData: expected a length of 2 tokens or more, got " + std::to_string(length));
  CHECK_THROWS_WITH(DenoisingData("abc", good, {.length = 8, .rate = 1}), Contains("rate"));
  CHECK_THROWS_WITH(DenoisingData("abc", good, {.length = 8, .mean_span = 0}), Contains("spans"));
  CHECK_THROWS_WITH(DenoisingData::special_tokens({.length = 0}), Contains("2 tokens or more"));
}

}  // namespace denoising_test
