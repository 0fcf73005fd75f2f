// What the train_* programs share: learning rates, optimisers and the scores of classifiers.

#include <catch2/catch.hpp>

#include "examples/training/training.h"
#include "examples/training/training_page.h"
#include "gradus/core/files/file.h"
#include "gradus/models/gpt.h"
#include "gradus/optim/muon.h"
#include "gradus/optim/optimizers.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace training_setup_test {

using namespace gradus;
using testing::difference;

namespace {

/// A task with a small model and without data.
struct Stub : Task {
  models::GPT gpt{
      models::GPTConfig{.vocab = 5, .context = 4, .layers = 1, .heads = 2, .dim = 8, .bias = true}};
  nn::Module& model() override { return gpt; }
  TaskInfo info() const override { return {}; }
  Tensor loss(int64_t, int64_t) override { return {}; }
  Evaluation estimate(Split, int64_t) override { return {}; }
  Evaluation validation() override { return {}; }
  void save(const std::string&) const override {}
};

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(Stub&)>;

/// The weights after three steps with random gradients, which are the same in each call.
Tensor trained(const MakeOptimizer& make) {
  manual_seed(1);
  Stub task;
  const std::unique_ptr<optim::Optimizer> optimizer = make(task);
  for (int step = 0; step < 3; ++step) {
    for (const Tensor& p : task.gpt.parameters()) p.set_grad(randn(p.shape()));
    optimizer->step();
  }
  std::vector<Tensor> all;
  for (const Tensor& p : task.gpt.parameters()) all.push_back(p.detach().flatten());
  return cat(all, 0);
}

}  // namespace

TEST_CASE("training: the learning rate's schedules end at --steps or --decay-steps") {
  const Stub task;
  const double pi = std::acos(-1.0), lr = 0.5, least = 0.1;
  TrainOptions o{.steps = 8, .warmup = 2, .lr = lr, .min_lr = least};
  const auto cosine = [&](double x) { return least + (lr - least) / 2 * (1 + std::cos(pi * x)); };
  const auto check = [&](int64_t step, double expected) {
    CAPTURE(step);
    CHECK(task.learning_rate(o, step) == Approx(expected));
  };
  check(0, lr / 3);
  check(1, lr * 2 / 3);
  for (int64_t step = 2; step < 8; ++step) check(step, cosine(static_cast<double>(step - 2) / 6));
  for (const int64_t step : {8, 9}) check(step, least);
  o.decay_steps = 4;
  check(3, cosine(0.5));
  check(4, least);
  o.decay_steps = 12;
  check(7, cosine(0.5));
  o.decay_steps = 0;
  o.warmup = 10;  // longer than the run
  check(7, lr * 8 / 11);
}

TEST_CASE("training: with --stable the learning rate falls linearly over the other steps") {
  const Stub task;
  TrainOptions o{.steps = 8, .warmup = 2, .lr = 0.5, .min_lr = 0.1, .stable = 0.75};
  const auto rates = [&] {
    std::vector<double> all;
    for (int64_t step = 0; step < 10; ++step) all.push_back(task.learning_rate(o, step));
    return all;
  };
  using Rates = std::vector<double>;
  CHECK_THAT(rates(), Catch::Matchers::Approx(
                          Rates{0.5 / 3, 1.0 / 3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.3, 0.1, 0.1}));
  o.decay_steps = 4;
  CHECK_THAT(rates(), Catch::Matchers::Approx(
                          Rates{0.5 / 3, 1.0 / 3, 0.5, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}));
  o.decay_steps = 0;
  o.stable = 0.5;
  o.warmup = 7;  // rises within the stable steps
  CHECK_THAT(rates(),
             Catch::Matchers::Approx(Rates{0.1, 0.2, 0.3, 0.4, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1}));
}

TEST_CASE("training: the optimisers have the options of their flags") {
  TrainOptions o{.lr = 0.03,
                 .beta1 = 0.5,
                 .beta2 = 0.6,
                 .weight_decay = 0.3,
                 .muon_lr = 0.05,
                 .muon_momentum = 0.4,
                 .muon_decay = 7,
                 .muon_precision = Precision::bf16,
                 .muon_steps = 3,
                 .polar_express = true,
                 .muon_per_head = true};
  const optim::AdamWOptions adamw{.lr = 0.03, .beta1 = 0.5, .beta2 = 0.6, .weight_decay = 0.3};
  const MakeOptimizer by_flags = [&](Stub& task) { return task.make_optimizer(o); };
  const Tensor expected = trained([&](Stub& task) {
    return std::make_unique<optim::AdamW>(optim::decay_groups(task.gpt.parameters()), adamw);
  });
  CHECK(difference(trained(by_flags), expected) < 1e-6);
  o.optimizer = OptimizerKind::muon;
  const auto muon = [&](bool cautious) {
    return trained([&](Stub& task) {
      return optim::muon_and_adamw(task.gpt.parameters(), task.gpt.hidden_matrices(),
                                   {.muon = {.lr = 0.05,
                                             .momentum = 0.4,
                                             .weight_decay = 7,
                                             .cautious = cautious,
                                             .steps = 3,
                                             .polar_express = true,
                                             .per_head = true,
                                             .bfloat16 = true},
                                    .adamw = adamw});
    });
  };
  const Tensor result = trained(by_flags);
  CHECK(difference(result, muon(true)) < 1e-6);
  CHECK(difference(result, muon(false)) > 1e-4);
}

TEST_CASE("training: a classifier's scores are those of all its examples") {
  manual_seed(2);
  const Tensor x = randn({1203, 3}), y = randint(0, 3, {1203});
  const Evaluation e = classification([](const Tensor& rows) { return rows; }, x, y);
  CHECK(e.batches == 3);
  CHECK(e.examples == 1203);
  std::vector<Score> scores;
  for (int64_t i = 0; i < e.batches; ++i) scores.push_back(e.score(i));
  CHECK(scores[0].examples == 500);
  CHECK(scores[2].examples == 203);
  const Score all = mean_score(scores);
  CHECK_THROWS_WITH(mean_score({{.loss = 0, .examples = 0}}),
                    "the evaluated batches contain nothing to predict");
  CHECK(all.examples == 1203);
  CHECK(all.loss == Approx(cross_entropy(x, y).item()));
  REQUIRE(all.more.size() == 1);
  CHECK(all.more[0].name == "accuracy");
  CHECK(all.more[0].value == Approx(mean((argmax(x, 1) == y).to(float64)).item()));
}

TEST_CASE("training: the page of a run that resumes at step 0 drops samples of later steps") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "page.jsonl", "{\"step\":5,\"sample\":\"x\"}\n");
  const TrainOptions o{.out = folder.path.string(), .resume = true, .page = 0};
  Stub task;
  const TaskInfo info = task.info();
  TrainingPage page(task, o, info);
  page.open(0, Ranks(60));
  CHECK(read_file(folder / "page.jsonl").empty());
}

}  // namespace training_setup_test
