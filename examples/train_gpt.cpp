// Trains a small GPT on a text, character by character, and writes text with it.
//
//   build/bin/train_gpt --data FILE --out DIR        --help lists the flags, --resume goes on
//
// A batch is a function of seed and step alone, and a checkpoint holds all else that a step depends
// on, so a run that was killed and resumed ends with the same bits as one that was not.

#include <gradus/gradus.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <sstream>

#include "examples/support/cli.h"
#include "examples/support/finite.h"
#include "examples/support/flags.h"
#include "examples/support/interrupt.h"
#include "examples/support/loss_log.h"
#include "examples/support/progress.h"
#include "examples/support/run_folder.h"
#include "examples/support/source_text.h"
#include "examples/support/step_log.h"
#include "examples/support/text.h"
#include "gradus/core/blas.h"

using namespace gradus;

namespace {

struct Options {
  std::string data;
  std::string out = "out/train";
  int64_t layers = 4, heads = 4, dim = 128, context = 64;
  int64_t batch = 12, accumulate = 1, steps = 2000, warmup = 100;
  double lr = 1e-3, min_lr = 1e-4, beta2 = 0.99, weight_decay = 0.1, clip = 1.0, dropout = 0;
  bool bias = false, resume = false, overwrite = false;
  int64_t eval_every = 250, eval_batches = 20;
  uint64_t seed = 1337;
  int64_t threads = num_threads();
};

/// Every flag. Those that a run's numbers depend on are stored in its checkpoint.
Flags make_flags(Options& o) {
  Flags flags(
      "Trains a small GPT on a text, character by character, and writes a sample.\n"
      "  train_gpt --data FILE --out DIR");
  const double any = 1e15, below_1 = 0.999999;
  flags.group("What is trained", true);
  flags.add("--data", o.data, "FILE", "UTF-8 text; its last tenth validates",
            "gradus's own source");
  flags.add("--layers", o.layers, 1, 10000, "transformer blocks");
  flags.add("--heads", o.heads, 1, 1e6, "attention heads of a block; must divide --dim");
  flags.add("--dim", o.dim, 1, 1e6, "numbers that stand for a character within the model");
  flags.add("--context", o.context, 1, 1e6, "characters that the model sees at once");
  flags.add("--bias", o.bias, "biases in linear layers and norms");
  flags.add("--dropout", o.dropout, 0, below_1, "probability of dropping a number in training");
  flags.group("How", true);
  flags.add("--steps", o.steps, 1, 4e9, "updates of the parameters");
  flags.add("--batch", o.batch, 1, 65536, "windows of --context characters in a batch");
  flags.add("--accumulate", o.accumulate, 1, 65536, "batches whose mean gradient makes a step");
  flags.add("--lr", o.lr, 0, 1e6, "highest learning rate");
  flags.add("--min-lr", o.min_lr, 0, 1e6, "learning rate at the end", "a tenth of --lr");
  flags.add("--warmup", o.warmup, 0, any, "steps until the learning rate is at its highest");
  flags.add("--beta2", o.beta2, 0, below_1, "AdamW's memory of squared gradients");
  flags.add("--weight-decay", o.weight_decay, 0, 1e6, "AdamW's weight decay, of matrices");
  flags.add("--clip", o.clip, 0, 1e6, "longest gradient (norm), longer ones are cut; 0: any");
  flags.add("--eval-every", o.eval_every, 1, any,
            "steps between estimates, which save a checkpoint");
  flags.add("--eval-batches", o.eval_batches, 1, 65536, "batches that an estimate of a loss takes");
  flags.add("--seed", o.seed, "of weights, batches, dropout and sample");
  flags.group("This run");
  flags.add("--out", o.out, "DIR", "folder for model, checkpoint, losses and their curves");
  flags.add("--threads", o.threads, 1, 1024, "threads to compute with");
  flags.add("--resume", o.resume, "goes on with the run in --out; --steps and --data may differ");
  flags.add("--overwrite", o.overwrite, "begins anew where --out holds a run");
  return flags;
}

class Run {
 public:
  Run(const Options& options, std::string options_json, const std::string& text, RunFolder& folder)
      : o_(options),
        options_json_(std::move(options_json)),
        folder_(folder),
        text_id_(fingerprint(text)),
        has_lines_(text.find('\n') != std::string::npos),
        tokenizer_(text),
        data_(tokenizer_.encode(text), o_.context),
        model_((manual_seed(o_.seed), config())),
        optimizer_(optim::decay_groups(model_.parameters()),
                   {.lr = o_.lr, .beta2 = o_.beta2, .weight_decay = o_.weight_decay}),
        losses_(folder.path()),
        steps_(folder / "steps.csv") {}

  void resume(const models::Checkpoint& checkpoint);
  void introduce() const;
  /// Trains to the last step, and says how good the model is. False if interrupted; then all is
  /// saved.
  bool train();

 private:
  models::GPTConfig config() const {
    return {.vocab = tokenizer_.vocab_size(),
            .context = o_.context,
            .layers = o_.layers,
            .heads = o_.heads,
            .dim = o_.dim,
            .dropout = o_.dropout,
            .bias = o_.bias};
  }
  double step();
  double estimate(models::TextData::Part part, Progress& progress) const;
  std::optional<double> whole_validation_loss(Progress& progress) const;
  void log_and_save(Progress& progress);
  void save(const std::optional<LossLog::Row>& row = {});
  void expect_finite(const std::string& what, bool finite) const;
  double seconds_besides_steps() const;
  void print_sample() const;
  Picture picture() const {
    return losses_.picture("GPT, " + with_commas(model_.num_parameters()) + " parameters");
  }
  double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  }

  using Clock = std::chrono::steady_clock;
  Options o_;
  std::string options_json_;
  RunFolder& folder_;
  std::string text_id_;
  bool has_lines_;
  models::CharTokenizer tokenizer_;
  models::TextData data_;
  models::GPT model_;
  optim::AdamW optimizer_;
  LossLog losses_;
  StepLog steps_;
  BackgroundPlot plot_;
  int64_t step_ = 0, saved_step_ = -1;  // steps done
  double estimate_seconds_ = 0;         // what the last one took, with saving
  Clock::time_point start_ = Clock::now();
  double seconds_before_ = 0;  // of the run before it was resumed
};

void Run::resume(const models::Checkpoint& checkpoint) {
  const std::string where = folder_.checkpoint();
  const Metadata& metadata = checkpoint.metadata();
  core::check(stored_text(metadata, "text", where) == text_id_,
              "the text is not the one that the run in ", o_.out, " began with");
  const int64_t step = stored_count(metadata, "step", where);
  core::check(step <= o_.steps, "the run in ", o_.out, " has done ", step,
              " steps, more than --steps ", o_.steps);
  seconds_before_ = stored_seconds(metadata, "seconds", where);
  checkpoint.restore(model_, optimizer_);
  step_ = saved_step_ = step;
  losses_.read_up_to(step_);
  steps_.cut_after(step_);
}

void Run::introduce() const {
  const int64_t train = data_.length(models::TextData::Part::train),
                validation = data_.length(models::TextData::Part::validation);
  std::ostringstream out;
  out << "text   " << (o_.data.empty() ? "gradus's own source" : o_.data) << ": "
      << with_commas(train + validation) << " characters, " << with_commas(tokenizer_.vocab_size())
      << " of them different; " << with_commas(train) << " train, the last "
      << with_commas(validation) << " validate\nmodel  " << with_commas(model_.num_parameters())
      << " parameters: " << o_.layers << " layers of width " << o_.dim << " with " << o_.heads
      << " heads, context " << o_.context << "\non     " << num_threads() << " threads, "
      << blas::describe() << "\ninto   " << o_.out << ", "
      << (saved_step_ < 0 ? "from" : "resumed at") << " step " << with_commas(step_) << " of "
      << with_commas(o_.steps) << "\n\n";
  std::fputs(out.str().c_str(), stdout);
}

double Run::step() {
  const double lr = optim::schedule::cosine(step_, {.lr = o_.lr,
                                                    .min_lr = o_.min_lr,
                                                    .warmup = o_.warmup,
                                                    .steps = std::max(o_.steps, o_.warmup)});
  optimizer_.set_lr(lr);
  optimizer_.zero_grad();
  double loss = 0;
  for (int64_t i = 0; i < o_.accumulate; ++i) {
    const auto [x, y] =
        data_.random_batch(models::TextData::Part::train, o_.batch, o_.seed, step_, i);
    const Tensor batch_loss = model_.loss(x, y) / static_cast<double>(o_.accumulate);
    batch_loss.backward();
    loss += batch_loss.item();
  }
  // A bound that no gradient reaches cuts nothing, but has the norm computed.
  const double any = std::numeric_limits<double>::max();
  const double norm = optimizer_.step({.max_grad_norm = o_.clip > 0 ? o_.clip : any});
  ++step_;
  expect_finite("the loss", std::isfinite(loss));
  steps_.add({step_, loss, lr, norm, seconds()});
  return loss;
}

double Run::estimate(models::TextData::Part part, Progress& progress) const {
  const NoGrad no_grad;
  const EvalMode eval;
  double sum = 0;
  for (int64_t i = 0; i < o_.eval_batches; ++i) {  // other batches than those of training
    const auto [x, y] = data_.random_batch(part, o_.batch, ~o_.seed, step_, i);
    sum += model_.loss(x, y).item();
    progress.part(part == models::TextData::Part::train ? "estimate of the training loss"
                                                        : "estimate of the validation loss",
                  i + 1, o_.eval_batches);
  }
  return sum / static_cast<double>(o_.eval_batches);
}

/// Over the validation part once, without gaps; nothing if interrupted.
std::optional<double> Run::whole_validation_loss(Progress& progress) const {
  const NoGrad no_grad;
  const EvalMode eval;
  const int64_t windows = data_.num_windows(models::TextData::Part::validation);
  const int64_t at_once = std::max<int64_t>(1, 4096 / o_.context);
  double sum = 0;
  for (int64_t first = 0; first < windows; first += at_once) {
    if (interrupted()) return {};
    const auto [x, y] = data_.windows(models::TextData::Part::validation, first, at_once);
    sum += model_.loss(x, y).item() * static_cast<double>(x.size(0));
    progress.part("loss over the whole validation part", first + x.size(0), windows);
  }
  return sum / static_cast<double>(windows);
}

void Run::expect_finite(const std::string& what, bool finite) const {
  core::check(
      finite, what, " is not finite at step ", step_, "; ",
      saved_step_ >= 0 ? "saved is step " + std::to_string(saved_step_) : "nothing is saved",
      "; try a smaller --lr");
}

/// With the row of losses that belongs to this step, if there is one. Nothing changes on disk
/// unless all of it is finite.
void Run::save(const std::optional<LossLog::Row>& row) {
  for (const NamedTensors& state : {model_.state_dict(), optimizer_.state_dict()}) {
    const std::string name = first_not_finite(state);
    expect_finite(name, name.empty());
  }
  if (saved_step_ < 0) folder_.remove_run();  // that --overwrite gave up
  if (row) losses_.add(*row);
  steps_.flush();
  tokenizer_.save(folder_ / "tokenizer.json");
  models::save_gpt(o_.out, model_);
  models::save_checkpoint(folder_.checkpoint(), model_, optimizer_,
                          {{"options", options_json_},
                           {"step", std::to_string(step_)},
                           {"seconds", std::to_string(seconds())},
                           {"text", text_id_}});
  saved_step_ = step_;
}

void Run::log_and_save(Progress& progress) {
  const Clock::time_point start = Clock::now();
  const double train = estimate(models::TextData::Part::train, progress),
               validation = estimate(models::TextData::Part::validation, progress);
  expect_finite("the estimated loss", std::isfinite(train) && std::isfinite(validation));
  save(LossLog::Row{step_, train, validation});
  if (step_ > 0 && step_ < o_.steps) plot_.draw(picture());
  estimate_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  progress.note(losses_.last_line());
}

/// How long estimates, and the loss over the whole validation part at the end, will still take.
double Run::seconds_besides_steps() const {
  const int64_t every = o_.eval_every;
  const int64_t estimates = step_ < o_.steps ? (o_.steps - 1) / every - step_ / every + 1 : 0;
  const double whole = static_cast<double>(data_.num_windows(models::TextData::Part::validation)) /
                       static_cast<double>(2 * o_.eval_batches * o_.batch);
  return estimate_seconds_ * (static_cast<double>(estimates) + whole);
}

bool Run::train() {
  Progress progress(step_, o_.steps, o_.batch * o_.accumulate * o_.context);
  while (true) {
    const bool due = step_ % o_.eval_every == 0 || step_ == o_.steps;
    if (due && losses_.last_step() < step_) log_and_save(progress);
    if (step_ == o_.steps || interrupted()) break;
    const double loss = step();
    progress.update(step_, loss, seconds_besides_steps());
  }
  const double trained = seconds();
  plot_.draw(picture());
  const std::optional<double> validation = whole_validation_loss(progress);
  if (!validation) {  // interrupted, now or before
    if (saved_step_ < step_) save();
    plot_.finish();
    progress.note("interrupted: saved at step " + std::to_string(step_) + "; go on with --resume");
    return false;
  }
  progress.note("drawing loss.png, writing a sample");
  const std::string complaint = plot_.finish();
  if (!complaint.empty()) progress.note("no loss.png: " + complaint);
  print_sample();
  std::printf(
      "in %s: model.safetensors and what else makes it; more of its text:\n"
      "  build/bin/generate --model %s --prompt \"...\"\n",
      o_.out.c_str(), o_.out.c_str());
  std::printf("final: step %lld train_loss %.4f val_loss %.4f seconds %.1f\n",
              static_cast<long long>(step_), losses_.last().train_loss, *validation, trained);
  return true;
}

void Run::print_sample() const {
  std::printf("\n--- a sample ---\n");
  auto print = [&](int64_t id) {
    std::fputs(tokenizer_.decode({id}).c_str(), stdout);
    std::fflush(stdout);
  };
  const int64_t first =
      data_.windows(models::TextData::Part::train, 0, 1).inputs[0][0].item<int64_t>();
  models::generate(model_, has_lines_ ? tokenizer_.encode("\n") : std::vector<int64_t>{first},
                   {.tokens = 400,
                    .sampling = {.temperature = 0.8, .top_k = 40},
                    .seed = o_.seed,
                    .on_token = print});
  std::printf("\n---\n");
}

int run(int argc, char** argv) {
  Options o;
  Flags flags = make_flags(o);
  if (!flags.parse(argc, argv)) return 0;
  core::check(!o.resume || !o.overwrite, "--resume goes on with a run, --overwrite gives it up");
  if (!flags.given("--min-lr")) o.min_lr = o.lr / 10;
  set_num_threads(static_cast<int>(o.threads));

  RunFolder folder(o.out, {"checkpoint.safetensors", "model.safetensors", "config.json",
                           "tokenizer.json", "loss.csv", "steps.csv", "loss.png"});
  folder.lock();
  std::optional<models::Checkpoint> checkpoint;
  if (o.resume) {
    checkpoint.emplace(folder.checkpoint());
    const std::string where = folder.checkpoint();
    flags.restore(stored_text(checkpoint->metadata(), "options", where), where,
                  {"--steps", "--data"});
  } else if (!o.overwrite) {
    folder.expect_no_run();
  }
  core::check(o.dim % o.heads == 0, "--heads ", o.heads, " does not divide --dim ", o.dim);
  core::check(o.min_lr <= o.lr, "--min-lr ", o.min_lr, " is above --lr ", o.lr);
  Run run(o, flags.to_json(), o.data.empty() ? source_text() : read_file(o.data), folder);
  if (checkpoint) run.resume(*checkpoint);
  checkpoint.reset();
  folder.make();
  if (!o.resume && !o.overwrite) folder.expect_no_run();  // made by another meanwhile
  folder.remove_leftovers();
  run.introduce();
  catch_interrupts();
  return run.train() ? 0 : 130;
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_gpt", argc, argv, run); }
