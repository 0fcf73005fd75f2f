#pragma once
// Learning rates as plain functions of the step. `step` counts the updates done before, so the
// first is step 0:
//   for (int64_t step = 0; step < steps; ++step) {
//     optimizer.set_lr(schedule::cosine(
//         step, {.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = steps}));
//     ...
//   }

#include <cstdint>

namespace gradus::optim::schedule {

/// lr.
double constant(int64_t step, double lr);

/// lr (step+1) / (warmup+1) for step < warmup, then lr.
double linear_warmup(int64_t step, double lr, int64_t warmup);

struct CosineOptions {
  double lr = 1e-3;    ///< the highest
  double min_lr = 0;   ///< from `steps` on
  int64_t warmup = 0;  ///< updates until lr is reached, linearly
  int64_t steps = 1;   ///< when min_lr is reached
};
/// Linear warm-up to lr, then min_lr + (lr - min_lr) (1 + cos(pi x)) / 2, where x goes from 0 at
/// `warmup` to 1 at `steps`, then min_lr. Loshchilov & Hutter 2017, arXiv 1608.03983, without
/// restarts.
double cosine(int64_t step, const CosineOptions& options);

/// d_model^-0.5 min(n^-0.5, n warmup^-1.5) with n = step + 1. Vaswani et al. 2017, arXiv
/// 1706.03762, equation 3.
double transformer(int64_t step, int64_t d_model, int64_t warmup = 4000);

}  // namespace gradus::optim::schedule
