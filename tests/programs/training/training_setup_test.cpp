// What the train_* programs share: flags, learning rates, optimisers, the scores of classifiers and
// what is printed about the progress.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <sstream>
#include <thread>

#include "examples/training/progress.h"
#include "examples/training/trainer.h"
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

using OptionText = std::function<std::string(const TrainOptions&)>;

/// The value of an option as text: numbers as C++ streams print them, enums as numbers.
template <class T>
OptionText of(T TrainOptions::*option) {
  return [=](const TrainOptions& o) {
    std::ostringstream out;
    if constexpr (std::is_enum_v<T>)
      out << static_cast<int>(o.*option);
    else
      out << o.*option;
    return out.str();
  };
}

/// A flag, its default in --help ("" for a switch) and in the options, a value to give ("" for a
/// switch), and what the option then is.
struct FlagCase {
  std::string name, shown, initial, given, then;
  OptionText option;
};

using O = TrainOptions;

/// The flags that checkpoints store, in their order. The defaults are nanoGPT's on a CPU and, for
/// Muon, Jordan's.
const std::vector<FlagCase> stored_flags{
    {"--steps", "2000", "2000", "7", "7", of(&O::steps)},
    {"--accumulate", "the number of ranks", "1", "7", "7", of(&O::accumulate)},
    {"--lr", "0.001", "0.001", "0.5", "0.5", of(&O::lr)},
    {"--min-lr", "a tenth of --lr, or 0 with --stable", "0.0001", "0.5", "0.5", of(&O::min_lr)},
    {"--warmup", "100", "100", "7", "7", of(&O::warmup)},
    {"--decay-steps", "0", "0", "7", "7", of(&O::decay_steps)},
    {"--stable", "0.0", "0", "0.5", "0.5", of(&O::stable)},
    {"--optimizer", "adamw", "0", "muon", "1", of(&O::optimizer)},
    {"--muon-lr", "0.02", "0.02", "0.5", "0.5", of(&O::muon_lr)},
    {"--muon-momentum", "0.95", "0.95", "0.5", "0.5", of(&O::muon_momentum)},
    {"--muon-decay", "0.0", "0", "0.5", "0.5", of(&O::muon_decay)},
    {"--muon-steps", "5", "5", "7", "7", of(&O::muon_steps)},
    {"--muon-polar-express", "", "0", "", "1", of(&O::polar_express)},
    {"--muon-per-head", "", "0", "", "1", of(&O::muon_per_head)},
    {"--muon-precision", "float32", "0", "bf16", "1", of(&O::muon_precision)},
    {"--beta1", "0.9", "0.9", "0.5", "0.5", of(&O::beta1)},
    {"--beta2", "0.99", "0.99", "0.5", "0.5", of(&O::beta2)},
    {"--weight-decay", "0.1", "0.1", "0.5", "0.5", of(&O::weight_decay)},
    {"--clip", "1.0", "1", "0.5", "0.5", of(&O::clip)},
    {"--precision", "float32", "0", "bf16", "1", of(&O::precision)},
    {"--ema", "0.0", "0", "0.5", "0.5", of(&O::ema)},
    {"--eval-every", "250", "250", "7", "7", of(&O::eval_every)},
    {"--eval-batches", "20", "20", "7", "7", of(&O::eval_batches)},
    {"--patience", "0", "0", "7", "7", of(&O::patience)},
    {"--seed", "1337", "1337", "7", "7", of(&O::seed)}};

/// All flags: also those of one run alone, which checkpoints do not store.
std::vector<FlagCase> all_flags() {
  const std::string threads = std::to_string(num_threads());
  std::vector<FlagCase> all = stored_flags;
  for (const FlagCase& flag :
       std::vector<FlagCase>{{"--out", "out/train", "out/train", "x", "x", of(&O::out)},
                             {"--init-from", "none", "", "x", "x", of(&O::init_from)},
                             {"--sample-every", "0", "0", "7", "7", of(&O::sample_every)},
                             {"--threads", threads, threads, "7", "7", of(&O::threads)},
                             {"--shard-optimizer", "", "0", "", "1", of(&O::shard_optimizer)},
                             {"--deadline", "60.0", "60", "7", "7", of(&O::deadline)},
                             {"--resume", "", "0", "", "1", of(&O::resume)},
                             {"--overwrite", "", "0", "", "1", of(&O::overwrite)},
                             {"--page", "PORT 8080", "-1", "", "8080", of(&O::page)},
                             {"--tensorboard", "", "0", "", "1", of(&O::tensorboard)},
                             {"--detect-anomaly", "", "0", "", "1", of(&O::detect_anomaly)},
                             {"--eval-only", "", "0", "", "1", of(&O::eval_only)}})
    all.push_back(flag);
  return all;
}

/// Options, with flags that read them from a command line.
struct CommandLine {
  TrainOptions o;
  Flags flags{""};
  CommandLine() { add_training_flags(flags, o); }
  void parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    flags.parse(static_cast<int>(argv.size()), argv.data());
  }
};

/// The help of a flag on one line.
std::string help_of(const std::string& name) {
  const std::string help = CommandLine().flags.help();
  const size_t begin = help.find("\n  " + name + ' ') + 1;
  REQUIRE(begin > 0);
  size_t end = help.find("\n  --", begin);
  end = std::min({end, help.find("\n\n", begin), help.size() - 1});
  std::istringstream words(help.substr(begin, end - begin));
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

/// What f() prints to stdout, which is no terminal meanwhile.
std::string printed(const std::function<void()>& f) {
  const TemporaryFolder folder;
  std::fflush(stdout);
  struct Restore {  // also if f() throws
    int before = ::dup(STDOUT_FILENO);
    ~Restore() {
      std::fflush(stdout);
      ::dup2(before, STDOUT_FILENO);
      ::close(before);
    }
  };
  {
    const Restore restore;
    const int file = ::open((folder / "said").c_str(), O_WRONLY | O_CREAT, 0600);
    REQUIRE(::dup2(file, STDOUT_FILENO) >= 0);
    ::close(file);
    f();
  }
  return read_file(folder / "said");
}

}  // namespace

TEST_CASE("training: each flag has the default of its help, and sets its own option alone") {
  for (const FlagCase& flag : all_flags()) {
    CAPTURE(flag.name);
    CommandLine line;
    line.parse(flag.given.empty() ? std::vector{flag.name} : std::vector{flag.name, flag.given});
    for (const FlagCase& other : all_flags()) {
      CAPTURE(other.name);
      CHECK(other.option(line.o) == (other.name == flag.name ? other.then : other.initial));
    }
    const std::string help = help_of(flag.name), shown = "; default ";
    if (!flag.shown.empty())
      CHECK_THAT(help, Catch::Matchers::EndsWith(shown + flag.shown));
    else
      CHECK(help.find(shown) == std::string::npos);
  }
}

TEST_CASE("training: checkpoints store the flags of the training, not those of one run") {
  const auto stored = CommandLine().flags.stored_values();
  REQUIRE(stored.size() == stored_flags.size());
  for (size_t i = 0; i < stored.size(); ++i) CHECK(stored[i].first == stored_flags[i].name);
  // The first version's checkpoints lack the flags that were added later.
  CommandLine line;
  const std::string earlier =
      R"({"steps":7,"accumulate":7,"lr":0.5,"min_lr":0.25,"warmup":7,"beta2":0.5,)"
      R"("weight_decay":0.5,"clip":0.5,"eval_every":7,"eval_batches":7,"seed":7})";
  line.flags.restore(earlier, "FILE", {});
  CHECK(line.o.steps == 7);
  CHECK(line.o.optimizer == OptimizerKind::adamw);
  CHECK_THROWS_WITH(line.flags.restore("{}", "FILE", {}), Catch::Contains("steps is missing"));
}

TEST_CASE("training: the limits of the flags belong to what they allow") {
  for (const char* word :
       {"--steps=1", "--accumulate=65536", "--stable=0.999", "--beta1=0.999999", "--lr=0",
        "--muon-steps=100", "--eval-batches=1", "--eval-every=1", "--threads=1024", "--deadline=1",
        "--page=65535", "--page=0", "--patience=0", "--seed=18446744073709551615"}) {
    CAPTURE(word);
    CHECK_NOTHROW(CommandLine().parse({word}));
  }
  for (const std::string word :
       {"--steps=0",       "--accumulate=0",   "--accumulate=65537",   "--stable=1",
        "--beta1=1",       "--beta2=1",        "--muon-momentum=1",    "--ema=1",
        "--lr=-0.1",       "--clip=-1",        "--muon-steps=0",       "--muon-steps=101",
        "--eval-every=0",  "--eval-batches=0", "--eval-batches=65537", "--threads=0",
        "--threads=1025",  "--deadline=0.5",   "--page=65536",         "--optimizer=sgd",
        "--precision=half"})
    CHECK_THROWS_WITH(CommandLine().parse({word}),
                      Catch::StartsWith(word.substr(0, word.find('=')) + ": expected "));
}

TEST_CASE("training: the progress of a run, where it is not shown on a terminal") {
  using namespace std::chrono_literals;
  const std::string said = printed([] {
    Progress progress(8, 10, 5000, "tokens");
    progress.note("begun");
    progress.part("estimate", 1, 2);  // for terminals
    std::this_thread::sleep_for(100ms);
    progress.update(9, 7, 0);  // too soon after the start
    std::this_thread::sleep_for(100ms);
    progress.update(10, 1.23456, 65);
  });
  CHECK_THAT(said, Catch::StartsWith("begun\nstep 10/10  loss 1.2346  ") &&
                       Catch::EndsWith(" tokens/s  1:05 left\n"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 2);
  // Each of the two steps took a tenth of a second or more.
  std::string rate = said.substr(said.find("1.2346  ") + 8);
  std::erase(rate, ',');
  CHECK(std::stod(rate) > 0);
  CHECK(std::stod(rate) <= 50000);
}

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
  // The number of steps of decay is rounded: (1 - 0.8) * 10 is below 2.
  o = {.steps = 10, .warmup = 0, .lr = 1, .min_lr = 0, .stable = 0.8};
  CHECK(task.learning_rate(o, 8) == 1);
  CHECK(task.learning_rate(o, 9) == 0.5);
  o = {.steps = 1, .warmup = 0, .lr = 1, .min_lr = 0, .stable = 0.8};  // at least one step
  CHECK(task.learning_rate(o, 0) == 1);
}

TEST_CASE("training: the time left includes the evaluation after the present step") {
  /// A task whose evaluations at step 0 take 0.6 seconds.
  struct Slow : Stub {
    Tensor loss(int64_t, int64_t) override {
      const Tensor ids = zeros({2, 4}, int64);
      return gpt.loss(ids, ids);
    }
    Evaluation estimate(Split, int64_t step) override {
      return {1, 1e6, [step](int64_t) {
                if (step == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
                return Score{.loss = 1};
              }};
    }
    Evaluation validation() override {
      return {1, 1, [](int64_t) { return Score{.loss = 1}; }};
    }
  };
  const TemporaryFolder scratch;
  const TrainOptions o{.steps = 2, .eval_every = 2, .out = scratch / "out"};
  Slow task;
  RunFolder folder(o.out, {"checkpoint.safetensors"});
  folder.make();
  const Ranks ranks(60);
  const std::string said = printed([&] { Trainer(task, o, "{}", folder, ranks).train(); });
  CHECK_THAT(said, Catch::Contains("step 2/2  loss ") && Catch::Contains(" left\n") &&
                       !Catch::Contains(" 0:00 left"));
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

TEST_CASE("training: a task without anything to evaluate is refused") {
  const TemporaryFolder scratch;
  const TrainOptions o{.out = scratch / "out"};
  Stub task;
  RunFolder folder(o.out, {"checkpoint.safetensors"});
  const Ranks ranks(60);
  Trainer trainer(task, o, "{}", folder, ranks);
  CHECK_THROWS_WITH(trainer.evaluate(),
                    "Trainer: nothing to evaluate for the loss over the whole validation part");
  CHECK_THROWS_WITH(trainer.train(),
                    "Trainer: nothing to evaluate for the estimate of the training loss");
  CHECK(scratch.files() == 0);
}

}  // namespace training_setup_test
