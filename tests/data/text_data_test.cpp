// Text as training data: where windows begin and end, computed by hand. The tokens are their own
// positions, 0, 1, 2, ..., so that a batch shows its origin.

#include "gradus/models/data/text/text_data.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

namespace text_data_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using Split = models::TextData::Split;
using Ids = std::vector<int64_t>;

namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max();

Ids places(int64_t n) {
  Ids tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

/// 100 tokens: 0 to 89 train, 90 to 99 validate. Windows of 4.
models::TextData hundred() { return models::TextData(places(100), 4); }

Ids starts(const models::TokenBatch& batch) {
  return batch.inputs.select(1, 0).to_vector<int64_t>();
}

}  // namespace

TEST_CASE("text data: windows are consecutive, targets one token later", "[text_data]") {
  const models::TextData data = hundred();
  CHECK(data.num_windows(Split::train) == 22);      // 88 inputs; the last target is token 88
  CHECK(data.num_windows(Split::validation) == 2);  // 90 to 97; the last target is token 98

  const auto [x, y] = data.windows(Split::validation, 0, 2);
  CHECK(x.shape() == Shape{2, 4});
  CHECK(x.to_vector<int64_t>() == Ids{90, 91, 92, 93, 94, 95, 96, 97});
  CHECK(y.to_vector<int64_t>() == Ids{91, 92, 93, 94, 95, 96, 97, 98});
  const auto [u, v] = data.windows(Split::train, 20, 5);  // only two remain
  CHECK(u.to_vector<int64_t>() == Ids{80, 81, 82, 83, 84, 85, 86, 87});
  CHECK(v.to_vector<int64_t>() == Ids{81, 82, 83, 84, 85, 86, 87, 88});

  // The remainder is shorter than a window and may be empty.
  const auto [p, q] = data.after_windows(Split::validation);
  CHECK(p.shape() == Shape{1, 1});
  CHECK(p.to_vector<int64_t>() == Ids{98});
  CHECK(q.to_vector<int64_t>() == Ids{99});
  CHECK(models::TextData(places(50), 4).after_windows(Split::validation).inputs.shape() ==
        Shape{1, 0});

  // With one more token another window fits; its last target is the last token of the split.
  CHECK(models::TextData(places(50), 4).num_windows(Split::validation) == 1);  // 45 to 49
  CHECK(models::TextData(places(50), 4)
            .windows(Split::validation, 0, 1)
            .targets.to_vector<int64_t>() == Ids{46, 47, 48, 49});
  CHECK(models::TextData(places(51), 4).num_windows(Split::train) == 11);  // 45 tokens: 44 inputs
}

TEST_CASE("text data: random windows reach both ends of their split and stay within it",
          "[text_data]") {
  const models::TextData data = hundred();
  auto extremes = [&](Split split) {
    const auto [x, y] = data.random_batch(split, 4000, 1, 0);
    CHECK(x.shape() == Shape{4000, 4});
    const Ids inputs = x.to_vector<int64_t>(), targets = y.to_vector<int64_t>();
    for (size_t i = 0; i < inputs.size(); ++i) {
      REQUIRE(targets[i] == inputs[i] + 1);
      if (i % 4) REQUIRE(inputs[i] == inputs[i - 1] + 1);
    }
    return std::pair(*std::min_element(inputs.begin(), inputs.end()),
                     *std::max_element(targets.begin(), targets.end()));
  };
  CHECK(extremes(Split::train) == std::pair<int64_t, int64_t>(0, 89));
  CHECK(extremes(Split::validation) == std::pair<int64_t, int64_t>(90, 99));
}

TEST_CASE("text data: a random batch depends only on split, seed, step and index", "[text_data]") {
  const models::TextData data = hundred();
  // From a few lines of Python for Philox4x32-10: (word 0 << 32 | word 1) mod 86 starts, or 6.
  CHECK(starts(data.random_batch(Split::train, 4, 1337, 0)) == Ids{78, 32, 57, 17});
  CHECK(starts(data.random_batch(Split::train, 4, 1337, 250, 3)) == Ids{31, 18, 60, 83});
  CHECK(starts(data.random_batch(Split::validation, 4, 1337, 7, 1)) == Ids{93, 94, 91, 93});

  const models::TextData wide(places(10000), 4);
  auto batch = [&](uint64_t seed, int64_t step, int64_t index, Split split = Split::train) {
    return starts(wide.random_batch(split, 8, seed, step, index));
  };
  const Ids one = batch(1, 2, 3);
  CHECK(batch(1, 2, 3) == one);
  CHECK(batch(2, 2, 3) != one);
  CHECK(batch(1, 3, 3) != one);
  CHECK(batch(1, 2, 4) != one);
  Ids other = batch(1, 2, 3, Split::validation);
  for (int64_t& start : other) start = start - 9000;
  CHECK(other != one);
}

TEST_CASE("text data: no two batches share random numbers", "[text_data]") {
  // If the counters of two batches overlapped, the end of one would equal the beginning of the
  // other.
  const models::TextData data(places(1 << 20), 1);
  constexpr int64_t largest = 1 << 16;
  auto ends = [&](int64_t step, int64_t index) {
    const Ids all = starts(data.random_batch(Split::train, largest, 1, step, index));
    return std::pair(Ids(all.begin(), all.begin() + 8), Ids(all.end() - 8, all.end()));
  };
  const auto first = ends(0, 0), next = ends(0, 1), last = ends(0, largest - 1), step = ends(1, 0),
             final = ends((int64_t{1} << 32) - 1, largest - 1);
  CHECK(first.second != next.first);
  CHECK(last.second != step.first);
  CHECK(first.first != step.first);
  CHECK(final.second != first.first);
  CHECK(next.first == starts(data.random_batch(Split::train, 8, 1, 0, 1)));
  // 65,537 windows would reach the first counter of the next index.
  CHECK_THROWS_WITH(data.random_batch(Split::train, largest + 1, 1, 0), Contains("65537"));
  CHECK_THROWS_WITH(data.random_batch(Split::train, 1, 1, 0, largest), Contains("65536"));
  CHECK_THROWS_WITH(data.random_batch(Split::train, 1, 1, int64_t{1} << 32), Contains("step"));
}

TEST_CASE("text data: bad arguments are refused", "[text_data]") {
  const models::TextData data = hundred();
  for (const int64_t batch : {int64_t{0}, int64_t{-1}, -most}) {
    CHECK_THROWS_WITH(data.random_batch(Split::train, batch, 1, 0), Contains("batch"));
    CHECK_THROWS_WITH(data.windows(Split::train, 0, batch), Contains("batch"));
  }
  CHECK_THROWS_WITH(data.random_batch(Split::train, most, 1, 0), Contains("batch"));
  CHECK_THROWS_WITH(data.random_batch(Split::train, 1, 1, -1), Contains("step"));
  CHECK_THROWS_WITH(data.random_batch(Split::train, 1, 1, 0, -1), Contains("index"));
  CHECK_THROWS_WITH(data.windows(Split::train, -1, 1), Contains("-1"));
  CHECK_THROWS_WITH(data.windows(Split::train, 22, 1), Contains("22"));
  CHECK_THROWS_WITH(data.windows(Split::train, most, 1), Contains("outside"));
  CHECK(starts(data.windows(Split::validation, 1, most)) == Ids{94});  // all that remain

  CHECK_THROWS_WITH(models::TextData(places(100), 0), Contains("context"));
  CHECK_THROWS_WITH(models::TextData(places(40), 4),
                    Contains("too few"));  // the last tenth: 4 tokens
  CHECK_NOTHROW(models::TextData(places(41), 4));
  CHECK_THROWS_WITH(models::TextData(places(100), most), Contains("too few"));
  CHECK_THROWS_WITH(models::TextData({}, 4), Contains("too few"));
}

}  // namespace text_data_test
