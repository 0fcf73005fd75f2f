// Batches of tensors.

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "gradus/gradus.h"
#include "gradus/models/data/draws.h"
#include "tests/support/compare.h"

namespace batches_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;

namespace {

using Ids = std::vector<int64_t>;

/// All rows of an epoch, in the order of its batches.
template <class B>
Ids rows_of(const B& batches, int64_t epoch = 0) {
  Ids out;
  for (const auto& batch : batches.epoch(epoch))
    for (int64_t id : batch[0].template to_vector<int64_t>()) out.push_back(id);
  return out;
}

Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

Ids counted(int64_t n) { return arange(n).to_vector<int64_t>(); }

}  // namespace

TEST_CASE("batches: each row once per epoch, the same rows for every tensor", "[data]") {
  const Tensor x = arange(10).to(float32).unsqueeze(1) * tensor({1, 100}), y = arange(10);
  const models::Batches batches({x, y}, {.size = 4, .seed = 1});
  CHECK(batches.size() == 3);
  int64_t count = 0;
  Ids seen;
  for (auto [images, labels] : batches.epoch(0)) {
    CHECK(images.shape() == Shape{count < 2 ? 4 : 2, 2});
    CHECK(labels.dtype() == int64);
    CHECK(difference(images, labels.to(float32).unsqueeze(1) * tensor({1, 100})) == 0);
    for (int64_t id : labels.to_vector<int64_t>()) seen.push_back(id);
    ++count;
  }
  CHECK(count == 3);
  CHECK(sorted(seen) == counted(10));
  CHECK(seen != counted(10));
  const models::Batches whole({y}, {.size = 4, .seed = 1, .drop_last = true});
  CHECK(whole.size() == 2);
  CHECK(rows_of(whole) == Ids(seen.begin(), seen.begin() + 8));
  CHECK(rows_of(models::Batches({y}, {.size = 3, .shuffle = false})) == counted(10));
  CHECK(models::Batches({y}, {.size = 100}).at(0)[0].numel() == 10);
  CHECK(models::Batches({y}).size() == 1);
  CHECK(models::Batches({y}, {.size = 1}).size() == 10);
  const Tensor mask = y > 4;
  const models::Batches three({x, y, mask}, {.size = 10});
  const auto [a, b, c] = three.at(0);
  CHECK(difference(c, b > 4) == 0);
  // A batch is a copy.
  {
    const NoGrad no_grad;
    models::Batches({y}, {.shuffle = false}).at(0)[0].fill_(7);
  }
  CHECK(y.to_vector<int64_t>() == counted(10));
}

TEST_CASE("batches: the order depends only on seed and epoch", "[data]") {
  const Tensor y = arange(100);
  const models::Batches batches({y}, {.size = 7, .seed = 3});
  const Ids first = rows_of(batches);
  manual_seed(99);
  const int before = num_threads();
  set_num_threads(1);
  CHECK(rows_of(models::Batches({y}, {.size = 7, .seed = 3})) == first);
  set_num_threads(before);
  CHECK(rows_of(models::Batches({y}, {.size = 100, .seed = 3})) == first);  // for any batch size
  CHECK(rows_of(models::Batches({y}, {.size = 7, .seed = 4})) != first);
  CHECK(rows_of(models::Batches({y})) == rows_of(models::Batches({y}, {.seed = 0})));
  std::set<Ids> orders;
  for (int64_t epoch = 0; epoch < 20; ++epoch) orders.insert(rows_of(batches, epoch));
  CHECK(orders.size() == 20);
  CHECK(batches.epoch(5)[1][0].to_vector<int64_t>() ==
        batches.at(5 * batches.size() + 1)[0].to_vector<int64_t>());
  CHECK(rows_of(batches) == first);
  // The batches of a run, in sequence and in any order.
  std::vector<Ids> run;
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    for (const auto& [batch] : batches.epoch(epoch)) run.push_back(batch.to_vector<int64_t>());
  for (int64_t step = 0; step < std::ssize(run); ++step) {
    const int64_t mixed = step * 31 % std::ssize(run);
    CHECK(batches.at(mixed)[0].to_vector<int64_t>() == run[static_cast<size_t>(mixed)]);
  }
  CHECK(batches.epoch(0)[14][0].to_vector<int64_t>() == run[14]);
  // manual_seed with the same seed draws another order.
  manual_seed(3);
  CHECK(randperm(100).to_vector<int64_t>() != first);
}

TEST_CASE("batches: all orders of three rows are equally likely", "[data]") {
  const models::Batches batches({arange(3)}, {.size = 3, .seed = 8});
  std::map<Ids, int> counts;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[rows_of(batches, epoch)];
  CHECK(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 150);  // 5 sigma
}

TEST_CASE("batches: bad arguments are refused", "[data]") {
  const Tensor x = zeros({3, 2}), y = zeros({4}, int64);
  CHECK_THROWS_WITH(models::Batches({x, y}), "Batches: tensor 0 has 3 rows, tensor 1 has 4");
  CHECK_THROWS_WITH(models::Batches({x}, {.size = 0}), Contains("at least 1 row, got 0"));
  CHECK_THROWS_WITH(models::Batches({x}, {.size = 4, .drop_last = true}),
                    "Batches: 3 rows make no batch of 4");
  CHECK_THROWS_WITH(models::Batches({zeros({0, 2})}), "Batches: 0 rows make no batch of 32");
  CHECK_THROWS_WITH(models::Batches({scalar(1)}), Contains("tensor 0 is of rank 0"));
  CHECK_THROWS_WITH(models::Batches({x, Tensor()}), Contains("tensor 1 is undefined"));
  CHECK_THROWS_WITH(models::Batches({x, x.to(bfloat16)}),
                    "Batches: expected float32, float64, int64 or bool, but tensor 1 is bfloat16");
  CHECK_THROWS_WITH(models::Batches({x.to(int8)}), Contains("but tensor 0 is int8"));
  CHECK_THROWS_WITH(models::Batches({x}).epoch(-1), Contains("expected an epoch in [0, "));
  const models::Batches batches({x}, {.size = 2});
  CHECK_THROWS_WITH(batches.epoch(0)[2], "Batches: batch 2 is outside [0, 2)");
  CHECK_THROWS_WITH(batches.epoch(0)[-1], "Batches: batch -1 is outside [0, 2)");
  constexpr int64_t epochs = int64_t{1} << 31, rows = int64_t{1} << 32;
  CHECK_THROWS_WITH(batches.epoch(epochs), Contains("expected an epoch in [0, 2147483648)"));
  CHECK(batches.epoch(epochs - 1).size() == 2);
  const Tensor one = zeros({1});  // expanded tensors take no memory
  CHECK_THROWS_WITH(models::Batches({one.expand({rows})}), Contains("rows are too many"));
  CHECK(models::Batches({one.expand({rows - 1})}, {.size = rows}).size() == 1);
  CHECK_THROWS_AS(batches.at(-1), Error);
  CHECK_THROWS_AS(batches.epoch(-1), Error);
}

TEST_CASE("draws: the words of Philox in pairs, one block after another", "[data]") {
  const RandomKey key{5, uint64_t{7} << 32};
  std::vector<uint64_t> numbers;
  for (const uint64_t block : {0, 1, 2}) {
    const auto words = philox(key, block);
    numbers.push_back(uint64_t{words[0]} << 32 | words[1]);
    numbers.push_back(uint64_t{words[2]} << 32 | words[3]);
  }
  models::internal::Draws integers(key), fractions(key);
  for (const uint64_t number : numbers) {
    CHECK(integers.below(1000003) == static_cast<int64_t>(number % 1000003));
    CHECK(fractions.uniform() == std::ldexp(static_cast<double>(number >> 11), -53));
  }
}

}  // namespace batches_test
