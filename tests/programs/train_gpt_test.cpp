// train_gpt: killed, interrupted, resumed, repeated and diverging runs; and its logged values,
// recomputed.

#include <algorithm>
#include <fstream>
#include <numeric>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/models/data/text/text_data.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/gpt.h"
#include "gradus/nn/layers.h"
#include "gradus/optim/optim.h"
#include "tests/support/train_bench.h"

namespace train_gpt_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

// With an endless warmup the learning rate differs at each step but does not depend on --steps.
const std::string warming = " --lr 10 --warmup 1000000 --min-lr 1";

}  // namespace

TEST_CASE("train_gpt: a killed run ends with the bits of an uninterrupted one") {
  const Bench bench;
  const std::string flags = bench.flags + " --dropout 0.1 --eval-every 20" + warming;
  {
    Process part("train_gpt", flags + " --steps 1000000" + bench.out("part"));
    REQUIRE(part.read_until("step 20 train"));
    part.finish(SIGKILL);
  }
  const int64_t step = bench.checkpoint_step("part");
  REQUIRE(step >= 20);
  REQUIRE(step < 1000000);
  // What kill -9 may leave: rows after the checkpoint, the last one truncated, and partly written
  // files.
  std::ofstream(bench / "part/steps.csv", std::ios::app) << step + 1 << ",1,1,1,1\n"
                                                         << step + 2 << ",1.5,0";
  for (const char* leftover : {"model.safetensors.tmp", "best/model.safetensors.tmp",
                               "checkpoint.safetensors.tmp123-4", "loss.png.tmp"})
    write_file_atomically(bench / (std::string("part/") + leftover), "half");
  write_file_atomically(bench / "part/mine.tmp", "not the program's");

  const std::string steps = " --steps " + std::to_string(step + 30);
  const Result resumed = run("train_gpt", "--resume" + steps + bench.out("part"));
  INFO(resumed.output);
  REQUIRE(resumed.status == 0);
  CHECK_THAT(resumed.output, Contains("resumed at step " + std::to_string(step)));
  REQUIRE(run("train_gpt", flags + steps + bench.out("whole")).status == 0);
  CHECK(bench.file("part/model.safetensors") == bench.file("whole/model.safetensors"));
  CHECK(bench.file("part/best/model.safetensors") == bench.file("whole/best/model.safetensors"));
  CHECK(bench.file("part/loss.csv") == bench.file("whole/loss.csv"));

  const Rows rows = bench.rows("whole/steps.csv", true);
  CHECK(std::ssize(rows) == step + 30);
  CHECK(bench.rows("part/steps.csv", true) == rows);
  CHECK(rows[4][0] == 5);
  CHECK(rows[4][2] == Approx(10 * 5 / 1000001.0));  // the fifth of 1,000,001 warmup steps to 10
  CHECK(bench.names("part") ==
        std::vector<std::string>{"best", "checkpoint.previous.safetensors",
                                 "checkpoint.safetensors", "config.json", "loss.csv", "loss.png",
                                 "mine.tmp", "model.safetensors", "steps.csv", "tokenizer.json"});
  CHECK(bench.names("part/best") ==
        std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.json"});
}

TEST_CASE("train_gpt: an interrupt at a step with an evaluation loses no row") {
  const Bench bench;
  const std::string flags = bench.flags + " --eval-every 1" + warming;
  {
    Process part("train_gpt", flags + " --steps 1000000" + bench.out("part"));
    REQUIRE(part.read_until("step 3 train"));
    const Result interrupted = part.finish(SIGTERM);
    CHECK(interrupted.status == 130);
    CHECK_THAT(interrupted.output, Contains("--resume"));
  }
  const int64_t step = bench.checkpoint_step("part");
  CHECK(bench.rows("part/loss.csv").back()[0] == static_cast<double>(step));
  CHECK(bench.rows("part/steps.csv").back()[0] == static_cast<double>(step));
  const std::string steps = " --steps " + std::to_string(step + 2);
  REQUIRE(run("train_gpt", "--resume" + steps + bench.out("part")).status == 0);
  REQUIRE(run("train_gpt", flags + steps + bench.out("whole")).status == 0);
  CHECK(bench.file("part/best/model.safetensors") == bench.file("whole/best/model.safetensors"));
  CHECK(bench.file("part/loss.csv") == bench.file("whole/loss.csv"));
  CHECK(bench.file("part/model.safetensors") == bench.file("whole/model.safetensors"));
  for (const std::string& name : bench.names("part")) CHECK_THAT(name, !Contains(".tmp"));
}

TEST_CASE("train_gpt: loss.png is drawn during the run") {
  const Bench bench;
  Process process("train_gpt", bench.flags + " --eval-every 5 --steps 1000000" + bench.out());
  for (int i = 0; i < 5000 && !bench.has("out/loss.png"); ++i) usleep(2000);
  CHECK(bench.has("out/loss.png"));
  CHECK(process.finish(SIGINT).status == 130);  // still running
  CHECK(bench.has("out/checkpoint.safetensors"));
  const std::string png = bench.file("out/loss.png");
  CHECK(png.substr(0, 4) == "\x89PNG");
  CHECK(png.substr(png.size() - 8, 4) == "IEND");
  CHECK(!bench.has("out/loss.png.tmp"));
}

// ---- logged values ----

namespace {

/// The mean cross entropy of `targets`, by hand.
double cross_entropy_of(const models::GPT& model, const std::vector<int64_t>& inputs,
                        const std::vector<int64_t>& targets) {
  const NoGrad no_grad;
  const EvalMode eval;
  const int64_t n = std::ssize(inputs), vocab = model.config.vocab;
  const std::vector<float> logits = model(from_data(inputs, {1, n})).to_vector<float>();
  double sum = 0;
  for (int64_t t = 0; t < n; ++t) {
    const float* row = logits.data() + t * vocab;
    double total = 0;
    for (int64_t v = 0; v < vocab; ++v) total += std::exp(static_cast<double>(row[v]));
    sum += std::log(total) - static_cast<double>(row[targets[static_cast<size_t>(t)]]);
  }
  return sum / static_cast<double>(n);
}

double cross_entropy_of(const models::GPT& model, const models::TokenBatch& batch) {
  double sum = 0;
  const int64_t n = batch.inputs.size(0);
  for (int64_t i = 0; i < n; ++i)
    sum += cross_entropy_of(model, batch.inputs[i].to_vector<int64_t>(),
                            batch.targets[i].to_vector<int64_t>());
  return sum / static_cast<double>(n);
}

/// The initial model of a run with this seed.
models::GPT first_model(uint64_t seed, const models::GPTConfig& config) {
  manual_seed(seed);
  return models::GPT(config);
}

double number_after(const std::string& text, const std::string& label) {
  const size_t at = text.rfind(label);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + label.size()));
}

}  // namespace

TEST_CASE("train_gpt: the loss over the validation part is the mean over all its tokens") {
  // The last tenth has 312 windows of 16 and 7 more tokens; the last 56 windows, a batch of their
  // own, and those tokens differ from the rest.
  std::string text = sample_text(49000).substr(0, 49000);
  for (int i = 0; text.size() < 50000; ++i) text += static_cast<char>('A' + i * i % 26);
  const Bench bench(text);
  const Result result = run("train_gpt", bench.flags + " --steps 20 --lr 1e-2" + bench.out());
  REQUIRE(result.status == 0);
  const models::GPT model = models::load_model<models::GPT>(bench / "out");
  const std::vector<int64_t> ids =
      models::CharTokenizer::load(bench / "out/tokenizer.json").encode(text.substr(45000));
  double sum = 0;
  int windows = 0;
  for (auto at = ids.begin(); ids.end() - at > 1; ++windows) {
    const auto end = at + std::min<int64_t>(16, ids.end() - at - 1);
    sum += static_cast<double>(end - at) * cross_entropy_of(model, {at, end}, {at + 1, end + 1});
    at = end;
  }
  CHECK(windows == 313);
  CHECK(number_after(result.output, "val_loss ") == Approx(sum / 4999).margin(6e-5).epsilon(0));
}

TEST_CASE("train_gpt: logged losses equal recomputed ones") {
  const std::string text = sample_text();
  const Bench bench(text);
  const models::CharTokenizer tokenizer(text);
  const models::TextData data(tokenizer.encode(text), 16);
  const models::GPTConfig config{
      .vocab = tokenizer.vocab_size(), .context = 16, .layers = 1, .heads = 2, .dim = 16};
  const models::GPT model = first_model(5, config);
  using Split = models::TextData::Split;

  SECTION("of accumulated batches, the mean") {
    REQUIRE(
        run("train_gpt", bench.flags + " --accumulate 3 --steps 1 --clip 0" + bench.out()).status ==
        0);
    double mean = 0;
    for (int64_t i = 0; i < 3; ++i)
      mean += cross_entropy_of(model, data.random_batch(Split::train, 4, 5, 0, i)) / 3;
    const Rows rows = bench.rows("out/steps.csv");
    CHECK(rows[0][1] == Approx(mean).epsilon(1e-5));
    CHECK(rows[0][3] > 0);  // the gradient's norm, even if nothing is clipped
  }
  SECTION("of an estimate, without dropout") {
    REQUIRE(run("train_gpt", bench.flags + " --dropout 0.5 --steps 1" + bench.out()).status == 0);
    const Rows rows = bench.rows("out/loss.csv");
    REQUIRE(rows[0][0] == 0);
    auto estimate = [&](Split part) {
      return (cross_entropy_of(model, data.random_batch(part, 4, ~uint64_t{5}, 0, 0)) +
              cross_entropy_of(model, data.random_batch(part, 4, ~uint64_t{5}, 0, 1))) /
             2;
    };
    CHECK(rows[0][1] == Approx(estimate(Split::train)).epsilon(1e-5));
    CHECK(rows[0][2] == Approx(estimate(Split::validation)).epsilon(1e-5));
  }
}

// ---- what must not be lost ----

TEST_CASE("train_gpt: a diverging run leaves its good files intact") {
  const Bench bench;
  // Weight decay multiplies each matrix by about a billion at each step.
  const std::string bad = bench.flags + " --lr 1000 --min-lr 1000 --warmup 0 --weight-decay 1e6";
  for (const char* eval : {" --eval-every 2", " --eval-every 100"}) {
    // The losses of the first 2 steps are finite, the resulting model is not.
    REQUIRE(run("train_gpt", bad + eval + " --overwrite --steps 1" + bench.out()).status == 0);
    const std::vector<std::string> before = bench.run_files();
    const Result result = run("train_gpt", "--resume --steps 2" + bench.out());
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK_THAT(result.output,
               Contains("not finite at step 2") && Contains("the last checkpoint is of step 1"));
    CHECK(bench.run_files() == before);
  }
}

TEST_CASE("train_gpt: no loss or state that is not finite is saved") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 2" + bench.out()).status == 0);
  std::string steps;
  SECTION("the optimiser's alone, which moves no parameter any more") {
    bench.fill_tensor("optimizer.exp_avg_sq.0", std::numeric_limits<float>::infinity());
    steps = "4";
  }
  SECTION("an estimate's alone, of numbers that are finite but too large") {
    bench.fill_tensor("model.ln_f.weight", 3e38f);
    std::filesystem::remove(bench.path / "out/loss.csv");  // so that the loss is evaluated again
    steps = "2";
  }
  const std::vector<std::string> before = bench.run_files();
  const Result result = run("train_gpt", "--resume --steps " + steps + bench.out());
  INFO(result.output);
  CHECK(result.status == 1);
  CHECK_THAT(result.output, Contains("not finite at step " + steps));
  CHECK(bench.run_files() == before);
}

TEST_CASE("train_gpt: --detect-anomaly names the op behind a loss that is not finite") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 2" + bench.out()).status == 0);
  bench.fill_tensor("model.ln_f.weight", 3e38f);
  const Result plain = run("train_gpt", "--resume --steps 4" + bench.out());
  const std::vector<std::string> before = bench.run_files();
  CHECK(plain.status == 1);
  CHECK_THAT(plain.output, Contains("the loss is not finite at step 3; the last checkpoint is of "
                                    "step 2; --resume --detect-anomaly names the op"));
  const Result traced = run("train_gpt", "--resume --detect-anomaly --steps 4" + bench.out());
  CHECK(traced.status == 1);
  CHECK_THAT(traced.output,
             Contains("anomaly: layer_norm produced a NaN or an infinity of shape") &&
                 Contains("at step 3; the last checkpoint is of step 2"));
  CHECK(bench.run_files() == before);
}

TEST_CASE("train_gpt: a run is not overwritten unless asked to") {
  const Bench bench;
  const std::string flags = bench.flags + " --steps 3" + bench.out();
  REQUIRE(run("train_gpt", flags).status == 0);
  const std::vector<std::string> before = bench.run_files();
  const Result refused = run("train_gpt", flags + " --lr 0.1");
  CHECK(refused.status == 1);
  CHECK(one_line(refused.output));
  CHECK_THAT(refused.output,
             Contains("3 steps") && Contains("--resume") && Contains("--overwrite"));
  CHECK(bench.run_files() == before);

  // --overwrite with bad options leaves the files as they are.
  CHECK(run("train_gpt", flags + " --overwrite --heads 3").status == 1);
  CHECK(bench.run_files() == before);
  CHECK(run("train_gpt", flags + " --overwrite --lr 0.1 --steps 2").status == 0);
  CHECK(bench.checkpoint_step() == 2);
  CHECK(bench.rows("out/steps.csv").size() == 2);

  for (const char* name : {"out/checkpoint.safetensors", "out/checkpoint.previous.safetensors"})
    std::filesystem::remove(bench.path / name);
  CHECK_THAT(run("train_gpt", flags).output, Contains("model.safetensors"));
}

TEST_CASE("train_gpt: two runs do not share a folder") {
  const Bench bench;
  const std::string flags = bench.flags + " --eval-every 1000000 --steps 1000000" + bench.out();
  Process first("train_gpt", flags);
  REQUIRE(first.read_until("step 0 train"));
  const std::vector<std::string> before = bench.run_files();
  for (const std::string& again : {flags, flags + " --overwrite", "--resume" + bench.out()}) {
    const Result second = run("train_gpt", again);
    CHECK(second.status == 1);
    CHECK(one_line(second.output));
    CHECK_THAT(second.output, Contains("another process is training in"));
  }
  CHECK(bench.run_files() == before);
  CHECK(run("generate", "--model '" + (bench / "out") + "' --tokens 5").status == 0);
  first.finish(SIGKILL);
  CHECK(run("train_gpt", "--resume --steps 2" + bench.out()).status == 0);  // the lock is released
}

TEST_CASE("train_gpt: every training option takes effect", "[fused]") {
  const Bench bench;
  const std::string options =
      " --bias --dropout 0.2 --steps 7 --batch 3 --accumulate 2 --lr 0.03 --min-lr 0.01 --warmup 3"
      " --beta2 0.8 --weight-decay 0.7 --clip 0.05 --eval-every 3 --eval-batches 1 --seed 77"
      " --layers 2 --heads 4 --dim 8 --context 10 --recipe nanogpt";
  REQUIRE(
      run("train_gpt", "--data '" + (bench / "text.txt") + "'" + options + bench.out()).status ==
      0);

  const models::CharTokenizer tokenizer(bench.file("text.txt"));
  const models::TextData data(tokenizer.encode(bench.file("text.txt")), 10);
  manual_seed(77);
  models::GPT model({.vocab = tokenizer.vocab_size(),
                     .context = 10,
                     .layers = 2,
                     .heads = 4,
                     .dim = 8,
                     .dropout = 0.2,
                     .bias = true});
  optim::AdamW optimizer(optim::decay_groups(model.parameters()),
                         {.beta2 = 0.8, .weight_decay = 0.7});
  const Rows rows = bench.rows("out/steps.csv", true);
  REQUIRE(rows.size() == 7);
  for (int64_t step = 0; step < 7; ++step) {
    const double lr =
        optim::schedule::cosine(step, {.lr = 0.03, .min_lr = 0.01, .warmup = 3, .steps = 7});
    optimizer.set_lr(lr);
    optimizer.zero_grad();
    double loss = 0;
    // The second batch draws from a stream of its own; the next step goes on after the first.
    const RandomKey first = default_generator().state();
    RandomKey next;
    std::map<const void*, Tensor> sums;
    for (int64_t i = 0; i < 2; ++i) {
      if (i == 1) next = default_generator().state();
      if (i == 1) default_generator().set_state({first.seed + 0x9e3779b97f4a7c15, first.counter});
      const auto [x, y] = data.random_batch(models::TextData::Split::train, 3, 77, step, i);
      const Tensor half = model.loss(x, y) / 2;
      half.backward();
      loss += half.item();
      for (const Tensor& p : model.parameters()) {
        sums[&p.impl()] = i == 0 ? p.grad() : sums[&p.impl()] + p.grad();
        p.set_grad({});
      }
    }
    for (const Tensor& p : model.parameters()) p.set_grad(sums[&p.impl()]);
    default_generator().set_state(next);
    const double norm = optimizer.step({.max_grad_norm = 0.05});
    CHECK(norm > 0.05);
    const std::vector<double> expected{static_cast<double>(step + 1), loss, lr, norm};
    for (size_t i = 0; i < 4; ++i)
      CHECK(rows[static_cast<size_t>(step)][i] == Approx(expected[i]).epsilon(1e-5));
  }
  const models::GPT trained = models::load_model<models::GPT>(bench / "out");
  const auto got = trained.state_dict(), expected = model.state_dict();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK(got[i].second.to_vector<float>() == expected[i].second.to_vector<float>());
  CHECK(bench.rows("out/loss.csv").size() == 4);  // steps 0, 3, 6 and 7
}

}  // namespace train_gpt_test
