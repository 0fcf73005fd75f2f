#include "examples/training/training.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "examples/training/interrupt.h"
#include "examples/training/trainer.h"
#include "gradus/core/ops/loss.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/nn/metrics.h"
#include "gradus/optim/optimizers.h"
#include "gradus/optim/schedule.h"

namespace gradus {

// ---- what a task has unless it says otherwise ----

std::unique_ptr<optim::Optimizer> Task::make_optimizer(const TrainOptions& o) {
  return std::make_unique<optim::AdamW>(
      optim::decay_groups(model().parameters()),
      optim::AdamWOptions{
          .lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay});
}

double Task::learning_rate(const TrainOptions& o, int64_t step) const {
  const int64_t end = o.decay_steps > 0 ? o.decay_steps : o.steps;
  return optim::schedule::cosine(
      step, {.lr = o.lr, .min_lr = o.min_lr, .warmup = o.warmup, .steps = std::max(end, o.warmup)});
}

Evaluation classification(std::function<Tensor(const Tensor&)> logits, Tensor x, Tensor y) {
  constexpr int64_t at_once = 500;
  const int64_t n = y.size(0);
  return {(n + at_once - 1) / at_once, static_cast<double>(n), [=](int64_t i) {
            const int64_t begin = i * at_once, end = std::min(n, begin + at_once);
            const Tensor said = logits(x.slice(0, begin, end)), truth = y.slice(0, begin, end);
            const auto rows = static_cast<double>(end - begin);
            return Score{.loss = cross_entropy(said, truth).item(),
                         .examples = rows,
                         .more = {{"accuracy", nn::accuracy(said, truth), rows}}};
          }};
}

Score mean_score(const std::vector<Score>& batches) {
  Score all{.loss = 0, .examples = 0, .more = {}};
  for (const Score& batch : batches) {
    all.loss += batch.loss * batch.examples;
    all.examples += batch.examples;
    for (const NamedMean& mean : batch.more) {
      auto sum = std::find_if(all.more.begin(), all.more.end(),
                              [&](const NamedMean& m) { return m.name == mean.name; });
      if (sum == all.more.end()) sum = all.more.insert(sum, {mean.name, 0, 0});
      if (mean.examples > 0) sum->value += mean.value * mean.examples;
      sum->examples += mean.examples;
    }
  }
  all.loss /= all.examples;
  std::erase_if(all.more, [](const NamedMean& mean) { return mean.examples == 0; });
  for (NamedMean& mean : all.more) mean.value /= mean.examples;
  return all;
}

// ---- flags ----

void add_training_flags(Flags& flags, TrainOptions& o) {
  const double any = 1e15, below_1 = 0.999999;
  flags.group("How", true);
  flags.add("--steps", o.steps, 1, 4e9, "updates of the parameters");
  flags.add("--accumulate", o.accumulate, 1, 65536, "batches whose mean gradient makes a step");
  flags.add("--lr", o.lr, 0, 1e6, "highest learning rate");
  flags.add("--min-lr", o.min_lr, 0, 1e6, "learning rate at the end", "a tenth of --lr");
  flags.add("--warmup", o.warmup, 0, any, "steps until the learning rate is at its highest");
  flags.add("--decay-steps", o.decay_steps, 0, any, "step where it is at its end; 0: --steps");
  flags.add("--beta1", o.beta1, 0, below_1, "AdamW's memory of gradients");
  flags.add("--beta2", o.beta2, 0, below_1, "AdamW's memory of squared gradients");
  flags.add("--weight-decay", o.weight_decay, 0, 1e6, "AdamW's weight decay, of matrices");
  flags.add("--clip", o.clip, 0, 1e6, "longest gradient (norm), longer ones are cut; 0: any");
  flags.add("--eval-every", o.eval_every, 1, any,
            "steps between estimates, which save a checkpoint");
  flags.add("--eval-batches", o.eval_batches, 1, 65536, "batches that an estimate of a loss takes");
  flags.add("--patience", o.patience, 0, any,
            "estimates without a better one that end the run; 0: any number");
  flags.add("--seed", o.seed, "of weights, batches, dropout and samples");
  flags.added_later({"--decay-steps", "--beta1", "--patience"});
  flags.group("This run");
  flags.add("--out", o.out, "DIR", "folder for model, checkpoint, losses and their curves");
  flags.add("--init-from", o.init_from, "DIR", "begins with the model in that folder", "none");
  flags.add("--sample-every", o.sample_every, 0, any,
            "steps between looks at what the model can do; 0: at the end");
  flags.add("--threads", o.threads, 1, 1024, "threads to compute with");
  flags.add("--resume", o.resume,
            "goes on from the last checkpoint in --out, which there is from step 0 on; --steps and "
            "--patience may differ");
  flags.add("--overwrite", o.overwrite, "begins anew where --out holds a run");
  flags.add("--detect-anomaly", o.detect_anomaly,
            "names the op that first made a NaN or an infinity; slower");
  flags.add("--eval-only", o.eval_only,
            "only says how good the run in --out or the model of --init-from is");
}

// ---- the frame ----

namespace {

void check_options(const TrainOptions& o) {
  core::check(!o.resume || !o.overwrite, "--resume goes on with a run, --overwrite gives it up");
  core::check(!o.resume || o.init_from.empty(),
              "--resume goes on with a run's own weights, --init-from begins with another's");
  core::check(!o.eval_only || (!o.resume && !o.overwrite),
              "--eval-only trains nothing: it goes with neither --resume nor --overwrite");
  if (o.init_from.empty() || !o.overwrite) return;
  for (const char* folder : {"", "/best"}) {
    std::error_code other;
    core::check(!std::filesystem::equivalent(o.init_from, o.out + folder, other), "--init-from ",
                o.init_from, " lies in --out, which --overwrite empties: choose another --out");
  }
}

/// What only holds once flags that are stored, or another model's, have their values.
void check_schedule(const TrainOptions& o) {
  core::check(o.min_lr <= o.lr, "--min-lr ", o.min_lr, " is above --lr ", o.lr);
  core::check(o.decay_steps == 0 || o.decay_steps >= o.warmup, "--decay-steps ", o.decay_steps,
              " is below --warmup ", o.warmup);
}

/// All that a run may leave in its folder.
std::vector<std::string> run_files() {
  std::vector<std::string> files{"checkpoint.safetensors", "checkpoint.previous.safetensors"};
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json", "images.json"})
    for (const char* folder : {"", "best/"}) files.push_back(std::string(folder) + name);
  files.insert(files.end(), {"loss.csv", "steps.csv", "loss.png"});
  for (const char* picture : {"alignment", "confusion", "mistakes", "attention", "example",
                              "painted", "embeddings", "similarity", "pictures"})
    for (const char* kind : {".png", ".csv"}) files.push_back(std::string(picture) + kind);
  return files;
}

int evaluate(Task& task, const TrainOptions& o, const std::string& options, RunFolder& folder,
             const std::optional<models::Checkpoint>& checkpoint) {
  Trainer trainer(task, o, options, folder);
  if (checkpoint) trainer.resume(*checkpoint);
  catch_interrupts();
  return trainer.evaluate() ? 0 : 130;
}

}  // namespace

int run_training(int argc, char** argv, Flags& flags, TrainOptions& o,
                 const TrainProgram& program) {
  if (!flags.parse(argc, argv)) return 0;
  check_options(o);
  if (!flags.given("--min-lr")) o.min_lr = o.lr / 10;
  set_num_threads(static_cast<int>(o.threads));

  RunFolder folder(o.out, run_files(), {"text.tokens", "train.tokens", "validation.tokens"});
  if (!o.eval_only) folder.lock();
  std::optional<models::Checkpoint> checkpoint;
  if (o.from_checkpoint()) {
    const std::string where = folder.checkpoint();
    std::string note;
    checkpoint.emplace(folder.load_checkpoint(note));
    if (!note.empty()) std::printf("%s\n  so this takes the checkpoint before it\n", note.c_str());
    if (std::filesystem::exists(models::config_path(o.out)))
      models::expect_kind(o.out, program.kind);
    std::vector<std::string> may_change = program.data_flags;
    may_change.insert(may_change.end(), {"--steps", "--patience"});
    flags.restore(stored_text(checkpoint->metadata(), "options", where), where, may_change);
  } else if (!o.overwrite && !o.eval_only) {
    folder.expect_no_run();
  }
  if (!o.init_from.empty())
    flags.adopt([&] { models::read_config(o.init_from, program.kind, program.config); },
                models::config_path(o.init_from), {"--dropout"});
  check_schedule(o);

  manual_seed(o.seed);
  const std::unique_ptr<Task> task = program.make_task();
  if (!o.init_from.empty()) {
    models::load_weights(o.init_from, task->model(), {.new_heads = true});
    task->model().to(float32);  // whatever the file had
  }
  if (o.eval_only) return evaluate(*task, o, flags.to_json(), folder, checkpoint);
  Trainer trainer(*task, o, flags.to_json(), folder);
  if (checkpoint) trainer.resume(*checkpoint);
  checkpoint.reset();
  folder.make();
  if (!o.resume && !o.overwrite) folder.expect_no_run();  // made by another meanwhile
  folder.remove_leftovers();
  trainer.introduce();
  catch_interrupts();
  return trainer.train() ? 0 : 130;
}

}  // namespace gradus
