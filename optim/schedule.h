#pragma once
// Learning rates as functions of the step, and Plateau, which follows the validation loss. The
// functions throw Error if `step` is negative or an option is out of range. `step` is the number of
// updates so far, 0 at first:
//   for (int64_t step = 0; step < steps; ++step) {
//     optimizer.set_lr(schedule::cosine(
//         step, {.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = steps}));
//     ...
//   }

#include "gradus/core/files/safetensors.h"

namespace gradus::optim::schedule {

/// Returns lr.
double constant(int64_t step, double lr);

/// Returns lr (step+1) / (warmup+1) for step < warmup, then lr.
double linear_warmup(int64_t step, double lr, int64_t warmup);

struct StepDecayOptions {
  double lr = 1e-3;     ///< initial learning rate
  int64_t every = 1;    ///< number of updates between two changes; > 0
  double factor = 0.1;  ///< multiplies lr at each change
};
/// Returns lr factor^floor(step / every): the rate is multiplied by `factor` once per `every`
/// updates.
double step(int64_t step, const StepDecayOptions& options);

/// Returns lr factor^step.
double exponential(int64_t step, double lr, double factor);

struct DecayOptions {
  double lr = 1e-3;    ///< peak learning rate
  double min_lr = 0;   ///< final learning rate
  int64_t warmup = 0;  ///< number of updates of linear warmup to lr
  int64_t steps = 0;   ///< step at which min_lr is reached; required, > 0 and >= warmup
};
/// Returns lr (step+1) / (warmup+1) for step < warmup, then a rate that falls linearly from lr at
/// step `warmup` to min_lr at step `steps`. Returns min_lr from then on.
double linear(int64_t step, const DecayOptions& options);

using CosineOptions = DecayOptions;  ///< options of cosine(), the same as those of linear()
/// Returns lr (step+1) / (warmup+1) for step < warmup, then min_lr + 0.5 (lr - min_lr) (1 + cos(pi
/// x)), where x rises linearly from 0 at step `warmup` to 1 at step `steps`. Returns min_lr from
/// then on. Loshchilov & Hutter 2017, arXiv 1608.03983, without restarts.
double cosine(int64_t step, const CosineOptions& options);

struct StableDecayOptions {
  double lr = 1e-3;    ///< peak learning rate
  double min_lr = 0;   ///< final learning rate
  int64_t warmup = 0;  ///< number of updates of linear warmup to lr
  int64_t decay = 0;   ///< number of updates of linear decay at the end; required, > 0
  int64_t steps = 0;   ///< step at which min_lr is reached; required, >= warmup + decay
};
/// Returns lr (step+1) / (warmup+1) for step < warmup, then lr until step `steps` - `decay`, then a
/// rate that falls linearly to min_lr at step `steps`. Returns min_lr from then on. To prolong the
/// phase with constant lr, increase `steps`, even during training. Hu et al. 2024, arXiv
/// 2404.06395; Hagele et al. 2024, arXiv 2405.18392.
double warmup_stable_decay(int64_t step, const StableDecayOptions& options);

/// Returns d_model^-0.5 min(n^-0.5, n warmup^-1.5) with n = step + 1. Vaswani et al. 2017, arXiv
/// 1706.03762, equation 3.
double transformer(int64_t step, int64_t d_model, int64_t warmup = 4000);

struct PlateauOptions {
  double lr = 1e-3;         ///< initial learning rate
  double factor = 0.1;      ///< multiplies lr at a reduction
  int64_t patience = 10;    ///< tolerated number of consecutive losses without improvement
  double threshold = 1e-4;  ///< an improvement must exceed this fraction of |best loss|
  int64_t cooldown = 0;     ///< number of losses after a reduction that do not count against
                            ///< patience
  double min_lr = 0;        ///< lower bound of lr after a reduction
};
/// Reduces the learning rate when the validation loss stops improving. A loss is an improvement if
/// it is below the best loss by more than threshold * |best loss|; it then becomes the best loss.
/// NaN is never an improvement. As in PyTorch's ReduceLROnPlateau, reductions by 1e-8 or less are
/// skipped. Unlike in PyTorch, the threshold also works for losses below 0, because it uses the
/// absolute value of the best loss. Usage:
///   optimizer.set_lr(plateau.step(validation_loss));
class Plateau {
 public:
  explicit Plateau(const PlateauOptions& options = {});
  /// Records the next loss and returns the new learning rate.
  double step(double loss);
  double lr() const { return lr_; }  ///< the current learning rate
  /// Returns everything that later steps depend on, except the options: "lr", "best" (the best
  /// loss, infinity at first), "bad" (the number of losses counted so far against `patience`) and
  /// "cooldown" (the number of further losses that will not be counted).
  NamedTensors state_dict() const;
  /// Restores a state returned by state_dict(). If names, shapes or dtypes do not match, changes
  /// nothing and throws one Error that lists the names. Also throws Error, with nothing changed, if
  /// "lr" is negative or not finite, if "best" is NaN, or if "bad" or "cooldown" is below 0 or
  /// above 2^53.
  void load_state_dict(const NamedTensors& state);

 private:
  PlateauOptions options_;
  double lr_, best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0, cooldown_ = 0;
};

}  // namespace gradus::optim::schedule
