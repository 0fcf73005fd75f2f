#include "examples/training/training.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "examples/logs/event_log.h"
#include "examples/support/source_text.h"
#include "examples/training/interrupt.h"
#include "examples/training/ranks.h"
#include "examples/training/trainer.h"
#include "gradus/core/debug/build_info.h"
#include "gradus/core/ops/loss.h"
#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/nn/metrics.h"
#include "gradus/optim/muon.h"
#include "gradus/optim/optimizers.h"
#include "gradus/optim/schedule.h"

namespace gradus {

// ---- defaults of a task ----

std::unique_ptr<optim::Optimizer> Task::make_optimizer(const TrainOptions& o) {
  const optim::AdamWOptions adamw{
      .lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay};
  if (o.optimizer == OptimizerKind::adamw)
    return std::make_unique<optim::AdamW>(optim::decay_groups(model().parameters()), adamw);
  return optim::muon_and_adamw(model().parameters(), model().hidden_matrices(),
                               {.muon = {.lr = o.muon_lr,
                                         .momentum = o.muon_momentum,
                                         .weight_decay = o.muon_decay,
                                         .cautious = true,
                                         .steps = o.muon_steps,
                                         .polar_express = o.polar_express,
                                         .per_head = o.muon_per_head,
                                         .bfloat16 = o.muon_precision == Precision::bf16},
                                .adamw = adamw});
}

namespace {
/// The schedule of --stable. A warmup that is longer than the steps before the decay is shortened.
optim::schedule::StableDecayOptions stable_decay(const TrainOptions& o) {
  const int64_t end = o.decay_steps > 0 ? o.decay_steps : o.steps;
  // 1e-9: (1 - 0.8) * 10 is less than 2.
  const double falling = (1 - o.stable) * static_cast<double>(end) + 1e-9;
  const int64_t decay = std::clamp(static_cast<int64_t>(falling), int64_t{1}, end),
                warmup = std::min(o.warmup, end - decay);
  return {.lr = o.lr, .min_lr = o.min_lr, .warmup = warmup, .decay = decay, .steps = end};
}
}  // namespace

double Task::learning_rate(const TrainOptions& o, int64_t step) const {
  if (o.stable > 0) return optim::schedule::warmup_stable_decay(step, stable_decay(o));
  const int64_t end = std::max(o.decay_steps > 0 ? o.decay_steps : o.steps, o.warmup);
  return optim::schedule::cosine(
      step, {.lr = o.lr, .min_lr = o.min_lr, .warmup = o.warmup, .steps = end});
}

Evaluation classification(std::function<Tensor(const Tensor&)> logits, Tensor x, Tensor y) {
  constexpr int64_t at_once = 500;
  const int64_t n = y.size(0);
  return {num_batches(n, at_once), static_cast<double>(n), [=](int64_t i) {
            const int64_t begin = i * at_once, end = std::min(n, begin + at_once);
            const Tensor output = logits(x.slice(0, begin, end)), truth = y.slice(0, begin, end);
            const auto rows = static_cast<double>(end - begin);
            return Score{.loss = cross_entropy(output, truth).item(),
                         .examples = rows,
                         .more = {{"accuracy", nn::accuracy(output, truth), rows}}};
          }};
}

Score mean_score(const std::vector<Score>& batches) {
  Score all{.loss = 0, .examples = 0, .more = {}};
  for (const Score& batch : batches) {
    if (batch.examples > 0) all.loss += batch.loss * batch.examples;
    all.examples += batch.examples;
    for (const NamedMean& mean : batch.more) {
      auto sum = std::ranges::find(all.more, mean.name, &NamedMean::name);
      if (sum == all.more.end()) sum = all.more.insert(sum, {mean.name, 0, 0});
      if (mean.examples > 0) sum->value += mean.value * mean.examples;
      sum->examples += mean.examples;
    }
  }
  core::check(all.examples > 0, "the evaluated batches contain nothing to predict");
  all.loss /= all.examples;
  std::erase_if(all.more, [](const NamedMean& mean) { return mean.examples == 0; });
  for (NamedMean& mean : all.more) mean.value /= mean.examples;
  return all;
}

// ---- flags ----

namespace {
void add_optimizer_flags(Flags& flags, TrainOptions& o) {
  const double any = 1e15, below_1 = 0.999999;
  flags.add("--lr", o.lr, 0, 1e6, "peak learning rate");
  flags.add("--min-lr", o.min_lr, 0, 1e6, "final learning rate",
            "a tenth of --lr, or 0 with --stable");
  flags.add("--warmup", o.warmup, 0, any, "steps of linear warmup");
  flags.add("--decay-steps", o.decay_steps, 0, any,
            "step at which --min-lr is reached; 0: --steps");
  flags.add("--stable", o.stable, 0, 0.999,
            "share of the steps after which the learning rate falls linearly; 0: cosine decay");
  flags.add("--optimizer", o.optimizer, {"adamw", "muon"},
            "adamw, or muon for the matrices of hidden layers and adamw for the rest");
  flags.add("--muon-lr", o.muon_lr, 0, 1e6, "Muon's peak learning rate");
  flags.add("--muon-momentum", o.muon_momentum, 0, below_1,
            "Muon's decay of the mean of gradients");
  flags.add("--muon-decay", o.muon_decay, 0, 1e6,
            "Muon's weight decay, only of elements that the update moves towards 0");
  flags.add("--muon-steps", o.muon_steps, 1, 100, "steps of Muon's orthogonalisation");
  flags.add("--muon-polar-express", o.polar_express,
            "orthogonalise by the Polar Express's polynomials; then 3 or 4 --muon-steps suffice");
  flags.add("--muon-per-head", o.muon_per_head,
            "orthogonalise the queries, keys and values of each attention head on their own");
  flags.add("--muon-precision", o.muon_precision, {"float32", "bf16"},
            "precision of matrix products in Muon's orthogonalisation, as --precision");
  flags.add("--beta1", o.beta1, 0, below_1, "AdamW's decay of the running mean of gradients");
  flags.add("--beta2", o.beta2, 0, below_1,
            "AdamW's decay of the running mean of squared gradients");
  flags.add("--weight-decay", o.weight_decay, 0, 1e6, "AdamW's weight decay, for matrices only");
  flags.add("--clip", o.clip, 0, 1e6, "maximum norm of the gradient; 0: no clipping");
}
}  // namespace

void add_training_flags(Flags& flags, TrainOptions& o) {
  const double any = 1e15, below_1 = 0.999999;
  flags.group("Training", true);
  flags.add("--steps", o.steps, 1, 4e9, "optimiser steps");
  flags.add("--accumulate", o.accumulate, 1, 65536,
            "batches per step, whose gradients are averaged; mpirun's ranks divide them among "
            "themselves",
            "the number of ranks");
  add_optimizer_flags(flags, o);
  add_precision_flag(flags, o.precision);
  flags.add("--ema", o.ema, 0, below_1,
            "decay of a running mean of the weights, kept as a model in ema/; 0: none");
  flags.add("--eval-every", o.eval_every, 1, any,
            "steps between evaluations; each saves a checkpoint");
  flags.add("--eval-batches", o.eval_batches, 1, 65536, "batches per evaluation");
  flags.add("--patience", o.patience, 0, any,
            "stop after this many evaluations without improvement; 0: never");
  flags.add("--seed", o.seed, "seed of weights, batches, dropout and samples");
  flags.added_later({"--decay-steps", "--beta1", "--patience", "--stable", "--optimizer",
                     "--muon-lr", "--muon-momentum", "--muon-decay", "--ema", "--precision",
                     "--muon-steps", "--muon-polar-express", "--muon-precision",
                     "--muon-per-head"});
  flags.group("This run");
  flags.add("--out", o.out, "DIR", "output folder: model, checkpoint, losses and their plot");
  flags.add("--init-from", o.init_from, "DIR", "start from the weights in this folder", "none");
  flags.add("--sample-every", o.sample_every, 0, any,
            "steps between samples of the model's output; 0: only at the end");
  flags.add("--threads", o.threads, 1, 1024, "number of threads");
  flags.add("--shard-optimizer", o.shard_optimizer,
            "divide the optimiser's state among the ranks: less memory, the same result");
  flags.add("--deadline", o.deadline, 1, 1e6, "seconds that a rank waits for another one");
  flags.add(
      "--resume", o.resume,
      "continue from the last checkpoint in --out; --steps, --patience and the learning rate's "
      "flags may differ");
  flags.add("--overwrite", o.overwrite, "start over even if --out holds a run");
  flags.add_optional("--page", o.page, 8080, 65535, "PORT",
                     "serve a page that shows and controls the run, to this machine's browsers; "
                     "also saved as page.html; PORT 0: any free one");
  flags.add("--tensorboard", o.tensorboard,
            "also write the losses to a file in --out that TensorBoard reads");
  flags.add("--detect-anomaly", o.detect_anomaly,
            "name the op that first produced a NaN or an infinity; slower");
  flags.add("--eval-only", o.eval_only,
            "only evaluate the run in --out or the model in --init-from");
}

// ---- running ----

std::string stored_kind(const TrainOptions& o) {
  const std::string& dir = o.begins_with();
  if (dir.empty() || !std::filesystem::exists(models::config_path(dir))) return "";
  try {
    return models::model_kind(dir);
  } catch (const Error&) {
    if (o.from_checkpoint()) return "";
    throw;
  }
}

namespace {

void check_options(const TrainOptions& o) {
  core::check(!o.resume || !o.overwrite, "--resume and --overwrite exclude each other");
  core::check(!o.resume || o.init_from.empty(),
              "--resume and --init-from exclude each other: a resumed run has its own weights");
  core::check(!o.eval_only || (!o.resume && !o.overwrite),
              "--eval-only trains nothing: it excludes --resume and --overwrite");
  if (o.init_from.empty() || !o.overwrite) return;
  for (const char* folder : {"", "/best", "/ema"}) {
    std::error_code other;
    core::check(!std::filesystem::equivalent(o.init_from, o.out + folder, other), "--init-from ",
                o.init_from, " lies in --out, which --overwrite empties: choose another --out");
  }
}

/// Checks the options that may come from a checkpoint or from another model's folder. Throws Error
/// on flags that have no effect.
void check_together(const TrainOptions& o, const Flags& flags) {
  if (!o.init_from.empty())
    flags.refuse({"--tokenizer", "--vocab"}, ": --init-from uses its folder's tokenizer");
  for (const auto& [name, value] : flags.stored_values())
    if (name == "--tokenizer" && value != "word" && value != "bpe")
      flags.refuse({"--vocab"}, " has no effect with --tokenizer " + value);
  const char* whose = flags.given("--min-lr") ? "" : " of the checkpoint";
  core::check(o.min_lr <= o.lr, "--min-lr ", o.min_lr, whose, " is above --lr ", o.lr);
  core::check(o.decay_steps == 0 || o.decay_steps >= o.warmup, "--decay-steps ", o.decay_steps,
              " is below --warmup ", o.warmup);
  if (o.optimizer == OptimizerKind::adamw)
    return flags.refuse({"--muon-", "--no-muon-"}, " has no effect with --optimizer adamw");
  core::check(o.lr > 0, "--lr: expected a number above 0 with --optimizer muon, got ", o.lr);
}

/// All files that a run may write into its folder.
std::vector<std::string> run_files() {
  std::vector<std::string> files{"checkpoint.safetensors", "checkpoint.previous.safetensors"};
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json", "text.json",
                           "images.json", "adapter_config.json", "adapter_model.safetensors"})
    for (const char* folder : {"", "best/", "ema/"}) files.push_back(std::string(folder) + name);
  files.insert(files.end(), {"loss.csv", "steps.csv", "loss.png", "page.html", "page.jsonl",
                             EventLog::file_name});
  for (const char* picture : {"alignment", "confusion", "mistakes", "attention", "example",
                              "painted", "embeddings", "similarity", "pictures"})
    for (const char* kind : {".png", ".csv"}) files.push_back(std::string(picture) + kind);
  return files;
}

/// Throws Error if one of the data flags names no file or folder, or one that does not exist.
void expect_data(const Flags& flags, const std::vector<std::string>& names) {
  for (const auto& [name, value] : flags.stored_values()) {
    const bool names_data = std::find(names.begin(), names.end(), name) != names.end();
    if (!names_data || value.empty() || value == "-" || value.starts_with("shapes:")) continue;
    std::string paths = value;
    for (const std::string kind : {"mnist:", "cifar10:"})
      if (value.starts_with(kind)) paths = value.substr(kind.size());
    core::check(!paths.empty(), name, ": expected a folder after ", value);
    const std::string missing = missing_file(paths);
    core::check(missing.empty(), name, ": ", missing, ": no such file or folder");
  }
}

/// Throws Error if the folder holds a run. A data flag that names no file is reported instead.
void expect_no_run(RunFolder& folder, const Flags& flags, const std::vector<std::string>& names) {
  try {
    folder.expect_no_run();
  } catch (const Error&) {
    expect_data(flags, names);
    throw;
  }
}

/// Prints what a resumed run changes, and whether the warmup is longer than the run or than the
/// steps before --stable's decay.
void print_notes(const std::vector<std::string>& changes, const TrainOptions& o) {
  for (const std::string& change : changes) std::printf("changed %s\n", change.c_str());
  const int64_t rising = o.stable > 0 ? stable_decay(o).warmup : o.warmup;
  const bool too_short = rising > o.steps;
  if (too_short || rising < o.warmup)
    std::printf("--warmup %lld is longer than %s %lld: the learning rate %s\n",
                static_cast<long long>(o.warmup), too_short ? "--steps" : "--stable's share,",
                static_cast<long long>(too_short ? o.steps : rising),
                too_short ? "does not reach its peak" : "rises faster");
}

/// Throws Error, naming the rank, unless all ranks run the same training.
void expect_same_run(const Ranks& ranks, const Flags& flags, const TrainProgram& program,
                     const TaskInfo& info, const std::optional<models::Checkpoint>& checkpoint) {
  std::vector<std::pair<std::string, std::string>> values{
      {"the program", program.kind}, {"its version", version()}, {"the data", info.data_id}};
  for (const auto& [name, value] : flags.stored_values())
    if (std::ranges::find(program.data_flags, name) == program.data_flags.end())
      values.emplace_back(name, value);
  values.emplace_back("the checkpoint's step",
                      checkpoint ? checkpoint->metadata().at("step") : "none");
  ranks.expect_same(values);
}

/// Loads the weights of --init-from. With --eval-only, throws Error if the folder lacks layers;
/// otherwise these stay newly initialised, and a note names them.
void load_initial_weights(const TrainOptions& o, nn::Module& model) {
  try {
    models::load_weights(o.init_from, model);
  } catch (const Error& e) {
    if (o.eval_only || !models::is_hugging_face(o.init_from)) throw;
    models::load_weights(o.init_from, model, {.new_heads = true});
    std::printf("%s\n  these layers are newly initialised\n", e.what());
  }
  for (const auto& [name, p] : model.named_parameters())
    core::check(o.eval_only || is_floating(p.dtype()), "--init-from: ", o.init_from, ": '", name,
                "' is ", p.dtype(),
                ", which cannot be trained; convert --weights float32 can help");
  model.to(float32);  // the file may have another dtype
}

/// Sets what the ranks share, and the folder's lock on rank 0, which alone writes results.
void join(const Ranks& ranks, const Flags& flags, TrainOptions& o, RunFolder& folder) {
  o.rank = ranks.rank();
  o.ranks = ranks.size();
  if (ranks.several() && !flags.given("--accumulate")) o.accumulate = o.ranks;
  if (ranks.several() && !flags.given("--threads")) o.threads = ranks.threads();
  set_num_threads(static_cast<int>(o.threads));
  if (!o.eval_only && ranks.is_first()) folder.lock();
  ranks.gather("", "its start");  // the others read the folder after that
}

/// Makes the program's task. If that writes the data to files, rank 0 writes them before the other
/// ranks read them.
std::unique_ptr<Task> make_task(const Ranks& ranks, const TrainProgram& program) {
  std::unique_ptr<Task> task;
  if (ranks.is_first() || !program.writes_data()) task = program.make_task();
  if (ranks.several()) ranks.gather("", "its data");
  return task ? std::move(task) : program.make_task();
}

int run(const Ranks& ranks, Flags& flags, TrainOptions& o, const TrainProgram& program) {
  RunFolder folder(o.out, run_files(), {"text.tokens", "train.tokens", "validation.tokens"});
  join(ranks, flags, o, folder);
  std::optional<models::Checkpoint> checkpoint;
  std::vector<std::string> changes;  // of the checkpoint's flags
  if (o.from_checkpoint()) {
    const std::string where = folder.checkpoint();
    std::string note;
    checkpoint.emplace(folder.load_checkpoint(note));
    if (!note.empty()) std::printf("%s\n  using the previous checkpoint instead\n", note.c_str());
    if (!stored_kind(o).empty()) models::expect_kind(o.out, program.kind);
    std::vector<std::string> may_change = program.data_flags;
    may_change.insert(may_change.end(), {"--steps", "--patience", "--lr", "--min-lr", "--muon-lr",
                                         "--warmup", "--decay-steps", "--stable"});
    changes =
        flags.restore(stored_text(checkpoint->metadata(), "options", where), where, may_change);
  } else if (!o.overwrite && !o.eval_only && ranks.is_first()) {
    expect_no_run(folder, flags, program.data_flags);
  }
  if (!o.init_from.empty())
    flags.adopt([&] { models::read_config(o.init_from, program.kind, program.config); },
                models::config_path(o.init_from), {"--dropout"});
  check_together(o, flags);
  const PrecisionScope precision(o.precision);
  manual_seed(o.seed);
  const std::unique_ptr<Task> task = make_task(ranks, program);
  if (!o.init_from.empty()) load_initial_weights(o, task->model());
  task->begin();
  if (ranks.several()) expect_same_run(ranks, flags, program, task->info(), checkpoint);
  core::check(o.accumulate % o.ranks == 0, "--accumulate ", o.accumulate,
              ": that many batches per step cannot be divided among ", o.ranks,
              " ranks; expected a multiple of ", o.ranks);
  Trainer trainer(*task, o, flags.to_json(), folder, ranks);
  if (checkpoint) trainer.resume(*checkpoint);
  checkpoint.reset();
  if (o.eval_only) {
    catch_interrupts();
    return trainer.evaluate() ? 0 : 130;
  }
  if (ranks.is_first()) {
    folder.make();
    if (!o.resume && !o.overwrite) folder.expect_no_run();  // another process may have begun a run
    folder.remove_leftovers();
  }
  trainer.print_opening();
  print_notes(changes, o);
  catch_interrupts();
  return trainer.train() ? 0 : 130;
}

}  // namespace

int run_training(int argc, char** argv, Flags& flags, TrainOptions& o,
                 const TrainProgram& program) {
  try {
    if (!flags.parse(argc, argv)) return 0;
    check_options(o);
    if (!flags.given("--min-lr")) o.min_lr = o.stable > 0 ? 0 : o.lr / 10;
  } catch (const Error&) {
    if (launched_rank() > 0) return 1;  // rank 0 says the same
    throw;
  }
  const Ranks ranks(o.deadline);
  try {
    return run(ranks, flags, o, program);
  } catch (const optim::OtherRankFailed&) {
    return 1;
  } catch (const Error& e) {
    if (!ranks.several()) throw;
    if (!ranks.communicator().abort()) return 1;
    core::fail("rank ", ranks.rank(), ": ", e.what());
  }
}

}  // namespace gradus
