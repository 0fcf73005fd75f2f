#include "gradus/optim/schedule.h"

#include <numbers>

#include "gradus/core/files/named_tensors.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/optim/grad_norm.h"

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

double step(int64_t step, const StepDecayOptions& options) {
  check_step("schedule::step", step, 0);
  check(options.every > 0, "schedule::step: expected every > 0, got ", options.every);
  return options.lr * std::pow(options.factor, static_cast<double>(step / options.every));
}

double exponential(int64_t step, double lr, double factor) {
  check_step("schedule::exponential", step, 0);
  return lr * std::pow(factor, static_cast<double>(step));
}

namespace {
/// shape(x) goes from 1 at x = 0, the end of the warm-up, to 0 at x = 1.
template <class F>
double decay(const char* op, int64_t step, const DecayOptions& options, const F& shape) {
  check_step(op, step, options.warmup);
  check(options.steps > 0 && options.steps >= options.warmup, op,
        ": expected steps > 0, and >= warmup, got ", options.steps, " and ", options.warmup);
  if (step < options.warmup) return linear_warmup(step, options.lr, options.warmup);
  if (step >= options.steps) return options.min_lr;
  const double x = static_cast<double>(step - options.warmup) /
                   static_cast<double>(options.steps - options.warmup);
  return options.min_lr + (options.lr - options.min_lr) * shape(x);
}
}  // namespace

double linear(int64_t step, const DecayOptions& options) {
  return decay("schedule::linear", step, options, [](double x) { return 1 - x; });
}

double cosine(int64_t step, const CosineOptions& options) {
  return decay("schedule::cosine", step, options,
               [](double x) { return 0.5 * (1 + std::cos(std::numbers::pi * x)); });
}

double warmup_stable_decay(int64_t step, const StableDecayOptions& o) {
  constexpr const char* op = "schedule::warmup_stable_decay";
  check_step(op, step, o.warmup);
  check(o.decay > 0 && o.steps - o.decay >= o.warmup, op,
        ": expected decay > 0 and warmup + decay <= steps, got warmup ", o.warmup, ", decay ",
        o.decay, ", steps ", o.steps);
  if (step < o.steps - o.decay) return linear_warmup(step, o.lr, o.warmup);
  return linear(step - (o.steps - o.decay), {.lr = o.lr, .min_lr = o.min_lr, .steps = o.decay});
}

double transformer(int64_t step, int64_t d_model, int64_t warmup) {
  check_step("schedule::transformer", step, warmup);
  check(d_model > 0 && warmup > 0, "schedule::transformer: expected d_model and warmup > 0, got ",
        d_model, " and ", warmup);
  const double n = static_cast<double>(step) + 1;
  return std::min(std::pow(n, -0.5), n * std::pow(static_cast<double>(warmup), -1.5)) /
         std::sqrt(static_cast<double>(d_model));
}

// ---- Plateau ----

Plateau::Plateau(const PlateauOptions& options) : options_(options), lr_(options.lr) {
  check(options.lr >= 0 && std::isfinite(options.lr) && options.min_lr >= 0,
        "schedule::Plateau: expected lr and min_lr >= 0, got ", options.lr, " and ",
        options.min_lr);
  check(options.factor >= 0 && options.factor < 1,
        "schedule::Plateau: expected factor in [0, 1), got ", options.factor);
  check(options.patience >= 0 && options.cooldown >= 0,
        "schedule::Plateau: expected patience and cooldown >= 0, got ", options.patience, " and ",
        options.cooldown);
  check(options.threshold >= 0 && options.threshold < 1,
        "schedule::Plateau: expected threshold in [0, 1), got ", options.threshold);
}

double Plateau::step(double loss) {
  const double margin = std::isfinite(best_) ? options_.threshold * std::abs(best_) : 0;
  const bool better = loss < best_ - margin;
  if (better) best_ = loss;
  bad_ = better ? 0 : bad_ + 1;
  if (cooldown_ > 0) {
    --cooldown_;
    bad_ = 0;
  }
  if (bad_ > options_.patience) {
    const double next = std::max(lr_ * options_.factor, options_.min_lr);
    if (lr_ - next > 1e-8) lr_ = next;  // the default eps of PyTorch's ReduceLROnPlateau
    cooldown_ = options_.cooldown;
    bad_ = 0;
  }
  return lr_;
}

NamedTensors Plateau::state_dict() const {
  return {{"lr", scalar(lr_, float64)},
          {"best", scalar(best_, float64)},
          {"bad", full({}, static_cast<double>(bad_), int64)},
          {"cooldown", full({}, static_cast<double>(cooldown_), int64)}};
}

void Plateau::load_state_dict(const NamedTensors& state) {
  for (const char* count : {"bad", "cooldown"})
    internal::check_counts("schedule::Plateau", state, count);
  const NamedTensors own = state_dict();
  load_named("schedule::Plateau", own, state);
  const double lr = own[0].second.item();
  check(lr >= 0 && std::isfinite(lr), "schedule::Plateau: expected a finite lr >= 0, got ", lr);
  const double best = own[1].second.item();
  check(!std::isnan(best), "schedule::Plateau: expected a number for best, got nan");
  lr_ = lr;
  best_ = best;
  bad_ = own[2].second.item<int64_t>();
  cooldown_ = own[3].second.item<int64_t>();
}

}  // namespace gradus::optim::schedule
