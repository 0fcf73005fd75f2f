#include "examples/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "examples/training/finite.h"
#include "examples/training/interrupt.h"
#include "examples/training/keep_random_state.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

namespace {
// Folders in the run's folder: of the best model, and of the average of weights.
constexpr const char *best = "best", *ema = "ema";

/// The random state for batch number `index` of a step, given the state for the first batch. It
/// does not depend on the rank that computes the batch.
RandomKey random_state(RandomKey first, int64_t index) {
  first.seed += static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
  return first;
}
}  // namespace

Trainer::Trainer(Task& task, const TrainOptions& options, std::string options_json,
                 RunFolder& folder, const Ranks& ranks)
    : task_(task),
      o_(options),
      options_json_(std::move(options_json)),
      folder_(folder),
      ranks_(ranks),
      info_(task.info()),
      optimizer_(task.make_optimizer(options)),
      losses_(folder.path(), ranks.is_first()),
      steps_(folder / "steps.csv"),
      validation_examples_(task.validation().examples),
      page_(task, o_, info_) {
  if (o_.tensorboard && ranks.is_first()) events_.emplace(folder_ / EventLog::file_name);
  if (o_.ema > 0) average_.emplace(task.model().parameters(), o_.ema);
  if (!o_.shard_optimizer || !ranks.several()) return;
  auto sharded =
      std::make_unique<optim::ShardedOptimizer>(std::move(optimizer_), ranks.communicator());
  sharded_ = sharded.get();
  optimizer_ = std::move(sharded);
}

double Trainer::seconds() const {
  return seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
}

/// Accumulates the gradient of this rank's pass-th batch of a step and returns the batch's share of
/// the loss.
double Trainer::accumulate_gradient(int64_t pass) {
  std::optional<AnomalyMode> anomaly;
  if (o_.detect_anomaly) anomaly.emplace();
  const int64_t index = pass * o_.ranks + o_.rank;
  try {
    const Tensor loss = task_.loss(step_, index) / static_cast<double>(o_.accumulate);
    expect_finite("the loss", std::isfinite(loss.item()), step_ + 1);
    if (parallel_)
      parallel_->backward(loss, index + o_.ranks >= o_.accumulate,
                          "the gradients of step " + std::to_string(step_ + 1));
    else
      loss.backward();
    return loss.item();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with("anomaly: ")) expect_finite(what + ": its output", false, step_ + 1);
    throw;
  }
}

double Trainer::step() {
  const double lr = task_.learning_rate(o_, step_) * page_.rates().factor(step_ + 1);
  optimizer_->set_lr(lr);
  optimizer_->zero_grad();
  core::Generator& generator = default_generator();
  const RandomKey first = generator.state();
  RandomKey next = first;  // after the step's first batch, which is rank 0's
  std::vector<double> losses;
  for (int64_t pass = 0; pass < o_.accumulate / o_.ranks; ++pass) {
    generator.set_state(random_state(first, pass * o_.ranks + o_.rank));
    losses.push_back(accumulate_gradient(pass));
    if (pass == 0) next = generator.state();
  }
  const StepReport report = ranks_.share_step(losses, next, step_ + 1);
  generator.set_state(report.next);
  stopping_ = report.interrupted;
  // An unreachable bound clips nothing, but makes step() compute the norm for the log.
  const double any = std::numeric_limits<double>::max();
  page_.before_update(step_);
  const double norm = optimizer_->step({.max_grad_norm = o_.clip > 0 ? o_.clip : any});
  if (average_) average_->update();
  ++step_;
  expect_finite("the gradient's norm", std::isfinite(norm), step_);
  constexpr int64_t steps_between_comparisons = 100;
  if (step_ % steps_between_comparisons == 0)
    ranks_.expect_same_weights(task_.model().parameters(), step_);
  const StepLog::Row row{step_, report.loss, lr, norm, seconds()};
  if (ranks_.is_first()) steps_.add(row);
  if (events_) events_->add(row);
  page_.after_update(row);
  return report.loss;
}

/// The mean score over all batches, or nothing if `may_stop` and interrupted. Each rank scores a
/// part of them.
std::optional<Score> Trainer::score(const Evaluation& evaluation, const std::string& what,
                                    Progress& progress, bool may_stop) const {
  core::check(evaluation.batches > 0, "Trainer: nothing to evaluate for the ", what);
  const NoGrad no_grad;
  const EvalMode eval;
  const KeepRandomState random;
  std::vector<Score> own;
  bool complete = true;
  for (int64_t i = o_.rank; i < evaluation.batches; i += o_.ranks) {
    complete = !may_stop || !interrupted();
    if (!complete) break;
    own.push_back(evaluation.score(i));
    progress.part(what, i + 1, evaluation.batches);
  }
  const std::vector<Score> all = ranks_.gather_scores(own, complete, evaluation.batches, what);
  return all.empty() ? std::optional<Score>() : mean_score(all);
}

/// Calls f(), which writes into the run's folder. Its errors (a full disk, a missing folder) then
/// also say what has been saved.
void Trainer::writing(const std::function<void()>& f) const {
  try {
    folder_.expect_in_place();
    f();
  } catch (const Error& e) {
    core::fail(e.what(), "; ", saved(), saved_step_ < 0 ? "" : "; continue with --resume");
  }
}

/// Saves the run, with this step's row of losses if given. Writes nothing unless all values are
/// finite.
void Trainer::save(const std::optional<LossLog::Row>& row) {
  if (sharded_) sharded_->gather_state();
  for (const NamedTensors& state : {task_.model().state_dict(), optimizer_->state_dict()}) {
    const std::string name = first_not_finite(state);
    expect_finite(name, name.empty(), step_);
  }
  if (!ranks_.is_first()) {
    if (row) losses_.add(*row);
    saved_step_ = step_;
    return;
  }
  writing([&] {
    if (saved_step_ < 0) folder_.remove_run();  // replaced with --overwrite
    if (row) losses_.add(*row);
    steps_.flush();
    if (events_) events_->flush();
    page_.view().flush();
    task_.save(o_.out);
    if (average_) {
      const optim::WeightAverage::Applied applied(*average_);
      task_.save(folder_ / ema);
    }
    folder_.replace_checkpoint([&] {
      models::save_checkpoint(folder_.checkpoint(), task_.model(), *optimizer_, metadata(),
                              average_ ? &*average_ : nullptr);
    });
    saved_step_ = step_;
    if (row && is_best()) task_.save(folder_ / best);
  });
}

void Trainer::log_and_save(Progress& progress) {
  const Clock::time_point start = Clock::now();
  const Evaluation on_train = task_.estimate(Split::train, step_),
                   on_validation = task_.estimate(Split::validation, step_);
  const Score train = *score(on_train, "estimate of the training loss", progress, false),
              validation =
                  *score(on_validation, "estimate of the validation loss", progress, false);
  expect_finite("the estimated loss", std::isfinite(train.loss) && std::isfinite(validation.loss),
                step_);
  LossLog::Row row{step_, train.loss, validation.loss};
  for (const NamedMean& mean : validation.more) row.more.emplace_back(mean.name, mean.value);
  if (events_) events_->add(row);
  save(row);
  if (step_ > 0 && step_ < o_.steps && ranks_.is_first()) plot_.draw(picture());
  estimate_examples_ = on_train.examples + on_validation.examples;
  estimate_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  page_.view().add(losses_.last());
  progress.note(losses_.last_line());
}

/// True if the current model is the best so far.
bool Trainer::is_best() const { return losses_.best() && losses_.best()->step == step_; }

bool Trainer::out_of_patience() const {
  return o_.patience > 0 && losses_.best() &&
         losses_.rows_after(losses_.best()->step) >= o_.patience;
}

/// Whether to save and end, because this process, or one of several, has been interrupted.
bool Trainer::stopping() const { return ranks_.several() ? stopping_ : interrupted(); }

bool Trainer::train() {
  if (o_.accumulate > 1) parallel_.emplace(task_.model().parameters(), ranks_.communicator());
  page_.open(step_, ranks_);
  Progress progress(step_, o_.steps, info_.batch_items * o_.accumulate, info_.items);
  while (true) {
    start_ += page_.serve(step_, progress);
    const bool due = step_ % o_.eval_every == 0 || step_ == o_.steps;
    if (due && losses_.last_step() < step_) log_and_save(progress);
    if (step_ == o_.steps || stopping() || out_of_patience()) break;
    const double loss = step();
    progress.update(step_, loss, seconds_besides_steps());
    if (o_.sample_every > 0 && step_ % o_.sample_every == 0 && step_ < o_.steps) show(progress);
  }
  const double trained = seconds();
  if (ranks_.is_first()) writing([&] { plot_.draw(picture()); });
  std::optional<Score> validation;
  if (!stopping())
    validation = score(task_.validation(), "loss over the whole validation part", progress, true);
  if (!validation) {  // interrupted during the evaluation or before
    if (saved_step_ < step_) save();
    writing([&] { plot_.finish(); });
    const std::string note =
        "interrupted: saved at step " + std::to_string(step_) + "; continue with --resume";
    progress.note(note);
    if (std::ferror(stdout)) std::fprintf(stderr, "%s\n", note.c_str());
    return false;
  }
  if (step_ < o_.steps)
    progress.note("stopped: " + std::to_string(o_.patience) +
                  " evaluations without a better validation loss");
  std::string reason;
  writing([&] { reason = plot_.finish(); });
  if (!reason.empty()) progress.note("no loss.png: " + reason);
  show(progress);
  std::fputs(task_.what_next(o_.out).c_str(), stdout);
  if (!is_best() && std::filesystem::exists(folder_ / best))
    std::printf("in %s/%s: the model of step %lld, with the lowest validation loss (%.4f)\n",
                o_.out.c_str(), best, static_cast<long long>(losses_.best()->step),
                losses_.best()->validation_loss);
  print_average(progress);
  writing([&] { page_.save(); });
  print_final(*validation, trained);
  return true;
}

void Trainer::show(Progress& progress) {
  if (!ranks_.is_first()) return;
  progress.note("at step " + std::to_string(step_) + ':');
  const NoGrad no_grad;
  const EvalMode eval;
  const KeepRandomState random;
  writing([&] { page_.show(step_); });
  progress.go_on();
}

}  // namespace gradus
