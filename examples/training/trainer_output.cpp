// What a Trainer prints, and what it knows for that.

#include <cstdio>
#include <sstream>

#include "examples/support/text.h"
#include "examples/training/trainer.h"
#include "gradus/core/debug/build_info.h"

namespace gradus {

Picture Trainer::picture() const {
  const std::string title =
      info_.model + ", " + with_commas(task_.model().num_parameters()) + " parameters";
  return losses_.picture(title, info_.loss, steps_.curve());
}

void Trainer::print_opening() const {
  std::ostringstream out;
  out << info_.opening << "on     ";
  if (ranks_.several()) out << ranks_.size() << " ranks of ";
  out << num_threads() << " threads, " << blas_info() << "\ninto   " << o_.out << ", "
      << (saved_step_ >= 0        ? "resumed at"
          : !o_.init_from.empty() ? "with the weights in " + o_.init_from + ", from"
                                  : "from")
      << " step " << with_commas(step_) << " of " << with_commas(o_.steps) << "\n\n";
  std::fputs(out.str().c_str(), stdout);
}

/// Seconds that the remaining evaluations will take, including that of the whole validation part
/// and one that is due after the present step.
double Trainer::seconds_besides_steps() const {
  const int64_t estimates = (o_.steps - 1) / o_.eval_every - (step_ - 1) / o_.eval_every + 1;
  const double whole = validation_examples_ / estimate_examples_;
  return estimate_seconds_ * (static_cast<double>(estimates) + whole);
}

void Trainer::print_final(const Score& validation, double seconds) const {
  std::printf("final: step %lld", static_cast<long long>(step_));
  if (losses_.last_step() == step_ && !o_.eval_only)
    std::printf(" train_loss %.4f", losses_.last().train_loss);
  std::printf(" val_loss %.4f", validation.loss);
  for (const NamedMean& mean : validation.more)
    std::printf(" %s %.4f", mean.name.c_str(), mean.value);
  std::printf(" seconds %.1f\n", seconds);
}

/// Prints the scores of the average of weights.
void Trainer::print_average(Progress& progress) {
  if (!average_) return;
  const optim::WeightAverage::Applied applied(*average_);
  const std::optional<Score> mean =
      score(task_.validation(), "loss of the mean weights", progress, false);
  std::printf("in %s/%s: the running mean of the weights, with validation loss %.4f\n",
              o_.out.c_str(), "ema", mean->loss);
}

bool Trainer::evaluate() {
  std::fputs(info_.opening.c_str(), stdout);
  Progress progress(step_, std::max<int64_t>(step_, 1), 1, info_.items);
  const std::optional<Score> validation =
      score(task_.validation(), "loss over the whole validation part", progress, true);
  if (validation)
    print_final(*validation, seconds() - seconds_before_);
  else
    progress.note("interrupted");
  return validation.has_value();
}

void Trainer::expect_finite(const std::string& what, bool finite, int64_t step) const {
  const bool again = saved_step_ >= 0 && !o_.detect_anomaly;
  core::check(finite, what, " is not finite at step ", step, "; ", saved(),
              again ? "; --resume --detect-anomaly names the op" : "", "; try a smaller --lr");
}

std::string Trainer::saved() const {
  return saved_step_ >= 0 ? "the last checkpoint is of step " + std::to_string(saved_step_)
                          : "nothing is saved";
}

}  // namespace gradus
