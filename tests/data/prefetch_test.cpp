// Prefetched batches equal those of the function, in any order of calls.

#include "gradus/models/data/prefetch.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <random>
#include <string>

#include "gradus/core/ops/ops.h"
#include "gradus/models/data/text/text_data.h"

namespace prefetch_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::Prefetch;
using models::Split;

namespace {
using Place = std::pair<int64_t, int64_t>;

void wait_for(const std::atomic<int>& count, int wanted) {
  for (int i = 0; i < 10000 && count < wanted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(count >= wanted);
}
}  // namespace

TEST_CASE("prefetch: returns what the function returns, in any order", "[prefetch]") {
  std::atomic<int> calls = 0;
  Prefetch<Place> batches(
      [&](int64_t step, int64_t index) {
        ++calls;
        return Place(step, index);
      },
      {.per_step = 3});
  for (int64_t step = 0; step < 50; ++step)
    for (int64_t index = 0; index < 3; ++index)
      CHECK(batches.at(step, index) == Place(step, index));
  CHECK(calls <= 151);  // none computed twice
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto step = static_cast<int64_t>(random() % 4),
               index = static_cast<int64_t>(random() % 3);
    REQUIRE(batches.at(step, index) == Place(step, index));
  }
  constexpr int64_t last = std::numeric_limits<int64_t>::max();
  CHECK(batches.at(last, 2) == Place(last, 2));
  CHECK(batches.at(0) == Place(0, 0));
}

TEST_CASE("prefetch: one rank's share of each step", "[prefetch]") {
  std::atomic<int> calls = 0;
  Prefetch<Place> batches(
      [&](int64_t step, int64_t index) {
        ++calls;
        return Place(step, index);
      },
      {.per_step = 6, .first = 1, .stride = 3});
  for (int64_t step = 0; step < 50; ++step)
    for (const int64_t index : {1, 4}) CHECK(batches.at(step, index) == Place(step, index));
  CHECK(calls <= 101);  // none computed twice
}

TEST_CASE("prefetch: the next batch is computed on another thread, before it is requested",
          "[prefetch]") {
  std::atomic<int> calls = 0;
  const auto here = std::this_thread::get_id();
  Prefetch<std::thread::id> batches([&](int64_t, int64_t) {
    const auto id = std::this_thread::get_id();
    ++calls;
    return id;
  });
  CHECK(batches.at(0) == here);
  wait_for(calls, 2);
  CHECK(batches.at(1) != here);
  wait_for(calls, 3);
  CHECK(batches.at(1) == here);  // recomputed on this thread; the prefetched batch 2 stays
  CHECK(batches.at(2) != here);
  wait_for(calls, 5);
  CHECK(batches.at(3) != here);
  wait_for(calls, 6);
  CHECK(calls == 6);  // 0, 1, 2, 1 again, 3, 4
}

TEST_CASE("prefetch: a batch that was handed over is computed again", "[prefetch]") {
  std::atomic<int> calls = 0;
  constexpr int64_t last = std::numeric_limits<int64_t>::max();  // nothing is prefetched after it
  Prefetch<std::vector<int64_t>> batches([&](int64_t step, int64_t) {
    ++calls;
    return std::vector<int64_t>(3, step);
  });
  CHECK(batches.at(last - 1) == std::vector<int64_t>(3, last - 1));
  wait_for(calls, 2);
  for (int i = 0; i < 3; ++i) CHECK(batches.at(last) == std::vector<int64_t>(3, last));
  CHECK(calls == 4);
}

TEST_CASE("prefetch: a batch in progress is not started again", "[prefetch]") {
  std::atomic<int> calls = 0, begun = 0;
  std::atomic<bool> may_end = false;
  Prefetch<int64_t> batches([&](int64_t step, int64_t) {
    ++calls;
    if (step == 1) {
      ++begun;
      while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return step;
  });
  const struct Release {  // also if wait_for() throws: the worker must end
    std::atomic<bool>& flag;
    ~Release() { flag = true; }
  } release{may_end};
  batches.at(0);
  wait_for(begun, 1);
  batches.at(0);
  may_end = true;
  CHECK(batches.at(1) == 1);
  wait_for(calls, 4);
  CHECK(batches.at(2) == 2);
  CHECK(begun == 1);
}

TEST_CASE("prefetch: exceptions are rethrown by at() for their batch", "[prefetch]") {
  Prefetch<int64_t> batches([](int64_t step, int64_t) {
    core::check(step % 3 != 2, "no batch ", step);
    return step;
  });
  for (int64_t step = 0; step < 60; ++step) {
    if (step % 3 == 2)
      CHECK_THROWS_WITH(batches.at(step), "no batch " + std::to_string(step));
    else
      CHECK(batches.at(step) == step);
  }
  CHECK_THROWS_AS(batches.at(2), Error);
  {
    Prefetch<int> unused([](int64_t, int64_t) -> int { throw 1; });
  }
  {
    Prefetch<int> thrown([](int64_t step, int64_t) -> int { return step ? throw 1 : 0; });
    thrown.at(0);  // batch 1 throws in the background, unobserved
  }
  CHECK_THROWS_WITH(Prefetch<int>(nullptr), Contains("expected a function"));
  CHECK_THROWS_WITH(Prefetch<int>([](int64_t, int64_t) { return 0; }, {.per_step = 0}),
                    Contains("batch per step"));
  for (const models::BatchOrder& order :
       {models::BatchOrder{2, 2, 1}, models::BatchOrder{2, -1, 1}, models::BatchOrder{2, 0, 0}})
    CHECK_THROWS_WITH(Prefetch<int>([](int64_t, int64_t) { return 0; }, order),
                      Contains("expected 0 <= first < 2 and stride >= 1, got"));
}

TEST_CASE("prefetch: waits in its destructor for a batch that is being computed", "[prefetch]") {
  std::atomic<int> begun = 0, ended = 0;
  for (int i = 0; i < 20; ++i) {
    const int before = begun;
    Prefetch<int> batches([&](int64_t step, int64_t) {
      ++begun;
      if (step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++ended;
      return 0;
    });
    batches.at(0);
    if (i % 2) wait_for(begun, before + 2);
  }
  CHECK(begun == ended);
}

TEST_CASE("prefetch: batches are computed in the calling thread's modes", "[prefetch]") {
  std::atomic<int> calls = 0;
  Prefetch<std::pair<bool, bool>> batches([&](int64_t, int64_t) {
    const std::pair modes(grad_enabled(), is_training());
    ++calls;
    return modes;
  });
  {
    const NoGrad no_grad;
    const EvalMode eval;
    CHECK(batches.at(0) == std::pair(false, false));
    wait_for(calls, 2);
  }
  CHECK(batches.at(1) == std::pair(false, false));  // the modes when its computation started
  wait_for(calls, 3);
  CHECK(batches.at(2) == std::pair(true, true));
}

TEST_CASE("prefetch: both threads may run parallel loops on tensors", "[prefetch]") {
  std::vector<int64_t> tokens(100000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i % 977);
  const models::TextData data(tokens, 64);
  auto make = [&](int64_t step, int64_t index) {
    const auto batch = data.random_batch(Split::train, 32, 5, step, index);
    return one_hot(batch.inputs, 977).to(float32).sum();
  };
  Prefetch<Tensor> batches(make);
  const Tensor work = ones({300, 300});
  for (int64_t step = 0; step < 10; ++step) {
    CHECK(batches.at(step).item<float>() == make(step, 0).item<float>());
    CHECK(matmul(work, work).max().item<float>() == 300);
  }
}

}  // namespace prefetch_test
