#pragma once
// Learning rates as plain functions of the step. `step` counts the updates done before, so the
// first is step 0:
//   for (int64_t step = 0; step < steps; ++step) {
//     optimizer.set_lr(schedule::cosine(
//         step, {.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = steps}));
//     ...
//   }

#include "gradus/core/files/safetensors.h"

namespace gradus::optim::schedule {

/// lr.
double constant(int64_t step, double lr);

/// lr (step+1) / (warmup+1) for step < warmup, then lr.
double linear_warmup(int64_t step, double lr, int64_t warmup);

struct StepDecayOptions {
  double lr = 1e-3;     ///< at first
  int64_t every = 1;    ///< updates between two changes
  double factor = 0.1;  ///< of each change
};
/// lr, multiplied by `factor` after each `every` updates: lr factor^floor(step / every).
double step(int64_t step, const StepDecayOptions& options);

/// lr factor^step.
double exponential(int64_t step, double lr, double factor);

struct DecayOptions {
  double lr = 1e-3;    ///< the highest
  double min_lr = 0;   ///< from `steps` on
  int64_t warmup = 0;  ///< updates until lr is reached, linearly
  int64_t steps = 0;   ///< when min_lr is reached; must be given
};
/// Linear warm-up to lr, then in a straight line down to min_lr.
double linear(int64_t step, const DecayOptions& options);

using CosineOptions = DecayOptions;  ///< lr, min_lr, warmup, steps
/// Linear warm-up to lr, then min_lr + (lr - min_lr) (1 + cos(pi x)) / 2, where x goes from 0 at
/// `warmup` to 1 at `steps`, then min_lr. Loshchilov & Hutter 2017, arXiv 1608.03983, without
/// restarts.
double cosine(int64_t step, const CosineOptions& options);

/// d_model^-0.5 min(n^-0.5, n warmup^-1.5) with n = step + 1. Vaswani et al. 2017, arXiv
/// 1706.03762, equation 3.
double transformer(int64_t step, int64_t d_model, int64_t warmup = 4000);

struct PlateauOptions {
  double lr = 1e-3;         ///< to begin with
  double factor = 0.1;      ///< what lr is multiplied by
  int64_t patience = 10;    ///< as many losses in a row may be no better
  double threshold = 1e-4;  ///< better: below the best by this part of it
  int64_t cooldown = 0;     ///< losses that count for nothing after a reduction
  double min_lr = 0;        ///< it falls no further
};
/// A learning rate that falls when the loss stops falling, torch's ReduceLROnPlateau (but that its
/// threshold is a part of the best loss's size, which for a loss below 0 torch takes the wrong way):
/// give it each new validation loss (lower is better; NaN is never better). A reduction by less than
/// 1e-8 is not made.
///   optimizer.set_lr(plateau.step(validation_loss));
class Plateau {
 public:
  explicit Plateau(const PlateauOptions& options = {});
  /// Takes the next loss; returns the learning rate from now on.
  double step(double loss);
  double lr() const { return lr_; }  ///< of the step to come
  /// All that later steps depend on but for the options: "lr", "best", "bad" (losses in a row that
  /// were no better) and "cooldown" (losses that still count for nothing).
  NamedTensors state_dict() const;
  /// Restores it. Throws one Error listing all names that do not fit; then nothing has been
  /// changed.
  void load_state_dict(const NamedTensors& state);

 private:
  PlateauOptions options_;
  double lr_, best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0, cooldown_ = 0;
};

}  // namespace gradus::optim::schedule
