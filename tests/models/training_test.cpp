// Whole training steps: bitwise reproducible at any number of threads, without growing memory.

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/runtime/sanitizer.h"
#include "gradus/models/gpt.h"
#include "gradus/optim/optim.h"

namespace training_test {

using namespace gradus;
using namespace gradus::core;

namespace {

// A model wide enough that several threads share its loops.
struct Run {
  models::GPT model;
  optim::AdamW optimizer;
  Tensor ids, targets;

  explicit Run(uint64_t seed)
      : model([&] {
          manual_seed(seed);
          return models::GPTConfig{.vocab = 65,
                                   .context = 64,
                                   .layers = 2,
                                   .heads = 4,
                                   .dim = 96,
                                   .dropout = 0.1,
                                   .bias = true};
        }()),
        optimizer(model.parameters(), {.lr = 1e-3, .weight_decay = 0.1}),
        ids(randint(0, 65, {5, 64})),
        targets(randint(0, 65, {5, 64})) {}

  void steps(int n) {
    for (int i = 0; i < n; ++i) {
      optimizer.zero_grad();
      model.loss(ids, targets).backward();
      optimizer.step({.max_grad_norm = 1});
    }
  }

  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> all;
    for (const Tensor& p : model.parameters()) all.push_back(p.to_vector<float>());
    return all;
  }
};

std::vector<std::vector<float>> trained(uint64_t seed, int steps) {
  Run run(seed);
  run.steps(steps);
  return run.weights();
}

struct Threads {
  int before = num_threads();
  ~Threads() { set_num_threads(before); }
};

}  // namespace

TEST_CASE("training gives the same bits in each run, on one and two threads", "[training]") {
  const Threads restore;
  set_num_threads(2);
  const auto weights = trained(1, 10);
  CHECK(trained(1, 10) == weights);
  set_num_threads(1);
  CHECK(trained(1, 10) == weights);
  CHECK(trained(2, 10) != weights);
}

TEST_CASE("models trained concurrently on the user's own threads equal those trained alone",
          "[training][fused]") {
  const Threads restore;
  set_num_threads(2);
  std::vector<std::vector<std::vector<float>>> together(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < together.size(); ++i)
    threads.emplace_back([&, i] { together[i] = trained(i, 5); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < together.size(); ++i) CHECK(together[i] == trained(i, 5));
}

TEST_CASE("after its first step, training requests no memory from the system",
          "[training][memory]") {
  const Threads restore;
  set_num_threads(1);  // with more, threads may first meet in a kernel after the first step
  Run run(1);
  run.steps(1);
  const MemoryStats first = memory_stats();
  run.steps(5);
  CHECK(memory_stats().live == first.live);
  if (!sanitized)  // else only large blocks are cached
    CHECK(memory_stats().system_allocations == first.system_allocations);
}

}  // namespace training_test
