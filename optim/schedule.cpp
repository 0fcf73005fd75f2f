#include "gradus/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gradus/core/error.h"
#include "gradus/core/internal.h"

namespace gradus::optim::schedule {

namespace {
void check_step(const char* op, int64_t step, int64_t warmup) {
  check(step >= 0 && warmup >= 0, op, ": expected step and warmup >= 0, got ", step, " and ",
        warmup);
}
}  // namespace

double constant(int64_t step, double lr) {
  check_step("schedule::constant", step, 0);
  return lr;
}

double linear_warmup(int64_t step, double lr, int64_t warmup) {
  check_step("schedule::linear_warmup", step, warmup);
  if (step >= warmup) return lr;
  return lr * (static_cast<double>(step) + 1) / (static_cast<double>(warmup) + 1);
}

double cosine(int64_t step, const CosineOptions& options) {
  check_step("schedule::cosine", step, options.warmup);
  check(options.steps >= options.warmup, "schedule::cosine: expected steps >= warmup, got ",
        options.steps, " and ", options.warmup);
  if (step < options.warmup) return linear_warmup(step, options.lr, options.warmup);
  if (step >= options.steps) return options.min_lr;
  const double x = static_cast<double>(step - options.warmup) /
                   static_cast<double>(options.steps - options.warmup);
  return options.min_lr +
         (options.lr - options.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * x));
}

double transformer(int64_t step, int64_t d_model, int64_t warmup) {
  check_step("schedule::transformer", step, warmup);
  check(d_model > 0 && warmup > 0, "schedule::transformer: expected d_model and warmup > 0, got ",
        d_model, " and ", warmup);
  const double n = static_cast<double>(step) + 1;
  return std::min(std::pow(n, -0.5), n * std::pow(static_cast<double>(warmup), -1.5)) /
         std::sqrt(static_cast<double>(d_model));
}

}  // namespace gradus::optim::schedule
