// Trains a small GPT on a text, character by character, and writes text with it.
//
//   build/bin/train_gpt --data FILE --out DIR        --help lists the flags, --resume goes on
//
// A batch is a function of seed and step alone, and a checkpoint holds all else that a step depends
// on, so a run that was killed and resumed ends with the same bits as one that was not.

#include <gradus/gradus.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "examples/support/cli.h"
#include "examples/support/interrupt.h"
#include "examples/support/loss_log.h"
#include "examples/support/progress.h"
#include "examples/support/source_text.h"

using namespace gradus;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

struct Options {
  std::string data;
  std::string out = "out/train";
  int64_t layers = 4, heads = 4, dim = 128, context = 64;
  int64_t batch = 12, accumulate = 1, steps = 2000, warmup = 100;
  double lr = 1e-3, min_lr = 1e-4, beta2 = 0.99, weight_decay = 0.1, clip = 1.0, dropout = 0;
  bool bias = false, resume = false;
  int64_t eval_every = 250, eval_batches = 20;
  uint64_t seed = 1337;
  int threads = num_threads();
};
// All that a run's numbers depend on: what --resume restores and may not contradict, but for
// --steps.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Options, data, layers, heads, dim, context, batch, accumulate,
                                   steps, warmup, lr, min_lr, beta2, weight_decay, clip, dropout,
                                   bias, eval_every, eval_batches, seed)

void add_flags(CLI::App& app, Options& o) {
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  const auto fraction = CLI::Range(0.0, 1.0);
  const auto rate = CLI::Range(0.0, 1e6);
  app.add_option("--data", o.data, "UTF-8 text to train on; default: gradus's own source");
  app.add_option("--layers", o.layers, "transformer blocks")->check(positive);
  app.add_option("--heads", o.heads, "attention heads; must divide --dim")->check(positive);
  app.add_option("--dim", o.dim, "width")->check(positive);
  app.add_option("--context", o.context, "characters the model sees")->check(positive);
  app.add_option("--batch", o.batch, "windows a batch")->check(positive);
  app.add_option("--accumulate", o.accumulate, "batches a step")->check(positive);
  app.add_option("--steps", o.steps, "optimiser steps")->check(positive);
  app.add_option("--lr", o.lr, "highest learning rate")->check(rate);
  app.add_option("--min-lr", o.min_lr, "learning rate at the end")->check(rate);
  app.add_option("--warmup", o.warmup, "steps until the highest rate")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--beta2", o.beta2, "AdamW's beta2")->check(CLI::Range(0.0, 0.999999));
  app.add_option("--weight-decay", o.weight_decay, "AdamW's, of matrices")->check(rate);
  app.add_option("--clip", o.clip, "largest gradient norm; 0: any")->check(rate);
  app.add_option("--dropout", o.dropout, "probability")->check(fraction);
  app.add_option("--bias", o.bias, "biases in linear layers and norms");
  app.add_option("--eval-every", o.eval_every, "steps between estimates, checkpoints")
      ->check(positive);
  app.add_option("--eval-batches", o.eval_batches, "batches an estimate")->check(positive);
  app.add_option("--seed", o.seed, "of weights, batches, dropout and sample");
  app.add_option("--threads", o.threads, "threads")->check(CLI::Range(1, 1024));
  app.add_option("--out", o.out, "folder for model, checkpoint and curves");
  app.add_flag("--resume", o.resume, "go on from the checkpoint in --out");
  app.option_defaults()->always_capture_default();
}

/// The checkpoint's options, with those that the command line may change.
Options resumed_options(const CLI::App& app, const Options& given, const Json& stored) {
  Options o = stored.get<Options>();
  const Json asked = given;
  for (const auto& [key, value] : stored.items()) {
    std::string flag = "--" + key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (key == "data" || app.count(flag) == 0 || asked[key] == value) continue;
    check(key == "steps", flag, " ", asked[key].dump(), " contradicts the run in ", given.out,
          ", which has ", value.dump(), "; only --steps may change on --resume");
    o.steps = given.steps;
  }
  if (app.count("--data")) o.data = given.data;
  o.out = given.out;
  o.threads = given.threads;
  o.resume = true;
  return o;
}

/// FNV-1a: tells whether a run is resumed on the text that it began with.
std::string fingerprint(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return std::to_string(text.size()) + ' ' + std::to_string(hash);
}

class Run {
 public:
  Run(const Options& options, std::string text)
      : o_(options),
        text_id_(fingerprint(text)),
        tokenizer_(text),
        data_(tokenizer_.encode(text), o_.context),
        model_((manual_seed(o_.seed), config())),
        optimizer_(decay_groups(model_.parameters()),
                   {.lr = o_.lr, .beta2 = o_.beta2, .weight_decay = o_.weight_decay}),
        log_(o_.out) {}

  void resume(const Checkpoint& checkpoint);
  void prepare_folder();
  /// Trains to the last step; false if interrupted (then all is saved).
  bool train();
  void finish();

 private:
  GPTConfig config() const {
    return {.vocab = tokenizer_.vocab_size(),
            .context = o_.context,
            .layers = o_.layers,
            .heads = o_.heads,
            .dim = o_.dim,
            .dropout = o_.dropout,
            .bias = o_.bias};
  }
  double step();
  double estimate(TextData::Part part) const;
  double whole_validation_loss() const;
  void log_and_save();
  void save();
  double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  }

  using Clock = std::chrono::steady_clock;
  Options o_;
  std::string text_id_;
  CharTokenizer tokenizer_;
  TextData data_;
  GPT model_;
  AdamW optimizer_;
  LossLog log_;
  int64_t step_ = 0;  // steps done
  Clock::time_point start_ = Clock::now();
  double seconds_before_ = 0;  // of the run before it was resumed
};

void Run::resume(const Checkpoint& checkpoint) {
  const auto& metadata = checkpoint.metadata();
  check(metadata.at("text") == text_id_, "train_gpt: the text is not the one that the run in ",
        o_.out, " began with");
  checkpoint.restore(model_, optimizer_);
  step_ = std::stoll(metadata.at("step"));
  seconds_before_ = std::stod(metadata.at("seconds"));
  check(step_ <= o_.steps, "train_gpt: the run in ", o_.out, " has done ", step_,
        " steps, more than --steps ", o_.steps);
  log_.read_up_to(step_);
}

void Run::prepare_folder() {
  std::error_code error;
  fs::create_directories(o_.out, error);
  check(!error, "train_gpt: cannot make the folder ", o_.out, ": ", error.message());
  tokenizer_.save(o_.out +
                  "/tokenizer.json");  // fails here, not after an hour, if it can't be written
}

double Run::step() {
  optimizer_.set_lr(schedule::cosine(step_, {.lr = o_.lr,
                                             .min_lr = o_.min_lr,
                                             .warmup = o_.warmup,
                                             .steps = std::max(o_.steps, o_.warmup)}));
  optimizer_.zero_grad();
  double loss = 0;
  for (int64_t i = 0; i < o_.accumulate; ++i) {
    const auto [x, y] = data_.random_batch(TextData::Part::train, o_.batch, o_.seed, step_, i);
    const Tensor batch_loss = model_.loss(x, y) / static_cast<double>(o_.accumulate);
    batch_loss.backward();
    loss += batch_loss.item();
  }
  optimizer_.step(o_.clip > 0 ? StepOptions{.max_grad_norm = o_.clip} : StepOptions{});
  ++step_;
  return loss;
}

double Run::estimate(TextData::Part part) const {
  const NoGrad no_grad;
  const EvalMode eval;
  double sum = 0;
  for (int64_t i = 0; i < o_.eval_batches; ++i) {  // other batches than those of training
    const auto [x, y] = data_.random_batch(part, o_.batch, ~o_.seed, step_, i);
    sum += model_.loss(x, y).item();
  }
  return sum / static_cast<double>(o_.eval_batches);
}

double Run::whole_validation_loss() const {
  const NoGrad no_grad;
  const EvalMode eval;
  const int64_t windows = data_.num_windows(TextData::Part::validation);
  const int64_t at_once = std::max<int64_t>(1, 4096 / o_.context);
  double sum = 0;
  for (int64_t first = 0; first < windows; first += at_once) {
    const auto [x, y] = data_.windows(TextData::Part::validation, first, at_once);
    sum += model_.loss(x, y).item() * static_cast<double>(x.size(0));
  }
  return sum / static_cast<double>(windows);
}

void Run::save() {
  tokenizer_.save(o_.out + "/tokenizer.json");
  save_gpt(o_.out, model_);
  save_checkpoint(o_.out + "/checkpoint.safetensors", model_, optimizer_,
                  {{"options", Json(o_).dump()},
                   {"step", std::to_string(step_)},
                   {"seconds", std::to_string(seconds())},
                   {"text", text_id_}});
}

void Run::log_and_save() {
  log_.add({step_, estimate(TextData::Part::train), estimate(TextData::Part::validation)});
  save();
}

bool Run::train() {
  Progress progress(step_, o_.steps, o_.batch * o_.accumulate * o_.context);
  if (log_.empty()) log_and_save();
  while (step_ < o_.steps) {
    const double loss = step();
    check(std::isfinite(loss), "train_gpt: the loss is ", loss, " at step ", step_,
          "; try a smaller --lr");
    progress.update(step_, loss);
    if (interrupted()) {
      save();
      progress.note("interrupted: saved at step " + std::to_string(step_) +
                    "; go on with --resume");
      return false;
    }
    if (step_ % o_.eval_every == 0 && step_ < o_.steps) {
      log_and_save();
      progress.note(log_.last_line());
    }
  }
  return true;
}

void Run::finish() {
  const double trained = seconds();
  if (log_.empty() || log_.last_step() < step_) log_and_save();
  const double train_loss = estimate(TextData::Part::train);
  const double validation_loss = whole_validation_loss();
  const std::string complaint =
      log_.plot("GPT, " + std::to_string(model_.num_parameters()) + " parameters");
  if (!complaint.empty()) std::printf("no loss.png: %s\n", complaint.c_str());
  const std::vector<int64_t> sample =
      generate(model_, tokenizer_.encode("\n"),
               {.tokens = 400, .sampling = {.temperature = 0.8, .top_k = 40}, .seed = o_.seed});
  std::printf("\n--- a sample ---\n%s\n---\n", tokenizer_.decode(sample).c_str());
  std::printf("final: step %lld train_loss %.4f val_loss %.4f seconds %.1f\n",
              static_cast<long long>(step_), train_loss, validation_loss, trained);
}

int run(int argc, char** argv) {
  CLI::App app("Trains a small GPT on a text, character by character.");
  Options o;
  add_flags(app, o);
  parse_flags(app, argc, argv);
  set_num_threads(o.threads);

  std::optional<Checkpoint> checkpoint;
  if (o.resume) {
    checkpoint.emplace(o.out + "/checkpoint.safetensors");
    check(checkpoint->metadata().contains("options"), o.out, ": no checkpoint of train_gpt");
    o = resumed_options(app, o, Json::parse(checkpoint->metadata().at("options")));
  }
  check(o.dim % o.heads == 0, "train_gpt: --heads ", o.heads, " does not divide --dim ", o.dim);
  check(o.min_lr <= o.lr, "train_gpt: --min-lr ", o.min_lr, " is above --lr ", o.lr);
  Run run(o, o.data.empty() ? source_text() : read_file(o.data));
  if (checkpoint) run.resume(*checkpoint);
  checkpoint.reset();
  run.prepare_folder();
  catch_interrupts();
  if (!run.train()) return 130;
  run.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_gpt", argc, argv, run); }
