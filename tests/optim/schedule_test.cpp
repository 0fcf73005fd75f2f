// Learning-rate schedules.

#include "gradus/optim/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "gradus/core/core.h"

namespace schedule_test {

using namespace gradus;
using Catch::Matchers::Contains;
namespace schedule = gradus::optim::schedule;

namespace {

/// The learning rates of a plateau schedule for some losses.
std::vector<double> rates(const schedule::PlateauOptions& options,
                          const std::vector<double>& losses) {
  schedule::Plateau plateau(options);
  std::vector<double> out;
  for (double loss : losses) out.push_back(plateau.step(loss));
  return out;
}

}  // namespace

TEST_CASE("warmup_stable_decay: warmup, constant, linear decay", "[optim]") {
  const schedule::StableDecayOptions o{
      .lr = 0.4, .min_lr = 0.1, .warmup = 3, .decay = 6, .steps = 20};
  CHECK(schedule::warmup_stable_decay(0, o) == Approx(0.1));
  CHECK(schedule::warmup_stable_decay(2, o) == Approx(0.3));
  for (const int64_t step : {3, 10, 14}) CHECK(schedule::warmup_stable_decay(step, o) == 0.4);
  CHECK(schedule::warmup_stable_decay(16, o) == Approx(0.3));
  CHECK(schedule::warmup_stable_decay(19, o) == Approx(0.15));
  CHECK(schedule::warmup_stable_decay(20, o) == 0.1);
  CHECK(schedule::warmup_stable_decay(999, o) == 0.1);
  CHECK(schedule::warmup_stable_decay(17, {.lr = 1, .warmup = 14, .decay = 6, .steps = 20}) ==
        Approx(0.5));
  CHECK_THROWS_WITH(
      schedule::warmup_stable_decay(0, {.lr = 1, .warmup = 15, .decay = 6, .steps = 20}),
      Contains("warmup 15, decay 6, steps 20"));
  CHECK_THROWS_WITH(schedule::warmup_stable_decay(0, {.lr = 1, .steps = 20}),
                    Contains("decay > 0"));
  CHECK_THROWS_WITH(schedule::warmup_stable_decay(-1, o), Contains("step"));
}

TEST_CASE("learning-rate schedules follow their formulas", "[optim]") {
  using namespace optim::schedule;
  CHECK(constant(7, 0.5) == 0.5);
  CHECK(linear_warmup(0, 1, 4) == Approx(0.2));
  CHECK(linear_warmup(3, 1, 4) == Approx(0.8));
  CHECK(linear_warmup(4, 1, 4) == 1);
  CHECK(linear_warmup(0, 1, 0) == 1);

  const CosineOptions options{.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 2000};
  CHECK(cosine(0, options) == Approx(1e-3 / 101));
  CHECK(cosine(99, options) == Approx(1e-3 * 100 / 101));
  CHECK(cosine(100, options) == Approx(1e-3));
  CHECK(cosine(1050, options) == Approx(5.5e-4));
  CHECK(cosine(575, options) == Approx(1e-4 + 9e-4 * 0.5 * (1 + std::cos(std::numbers::pi / 4))));
  CHECK(cosine(2000, options) == 1e-4);
  CHECK(cosine(9999, options) == 1e-4);

  for (int64_t step : {0, 10, 3999, 4000, 20000}) {
    const double n = static_cast<double>(step + 1);
    CHECK(optim::schedule::transformer(step, 512, 4000) ==
          Approx(std::pow(512, -0.5) * std::min(std::pow(n, -0.5), n * std::pow(4000, -1.5))));
  }
  // Worked by hand: 512^-0.5 = 0.04419417, 4000^-1.5 = 3.952847e-6, 4000^-0.5 = 0.01581139.
  CHECK(optim::schedule::transformer(0, 512, 4000) == Approx(1.7469281e-7).epsilon(1e-7));
  CHECK(optim::schedule::transformer(1999, 512, 4000) == Approx(3.4938562e-4).epsilon(1e-7));
  CHECK(optim::schedule::transformer(3999, 512, 4000) == Approx(6.9877124e-4).epsilon(1e-7));
  CHECK(optim::schedule::transformer(15999, 512, 4000) == Approx(3.4938562e-4).epsilon(1e-7));
  CHECK(cosine(5, {.lr = 2, .min_lr = 1, .warmup = 5, .steps = 5}) == 1);  // warm-up only
  CHECK(cosine(4, {.lr = 2, .min_lr = 1, .warmup = 5, .steps = 5}) == Approx(2 * 5.0 / 6));
  CHECK(cosine(0, {.lr = 2, .warmup = 0, .steps = 4}) == 2);
  CHECK(cosine(3, {.lr = 2, .min_lr = 0, .warmup = 0, .steps = 4}) ==
        Approx(1 - std::sqrt(0.5)));  // 1 + cos(3/4 pi)
  CHECK_THROWS_WITH(constant(-1, 1), Contains("expected step and warmup >= 0, got -1"));
  CHECK_THROWS_WITH(cosine(0, {.warmup = 10, .steps = 5}),
                    Contains("expected steps > 0, and >= warmup, got 5 and 10"));
  CHECK_THROWS_WITH(optim::schedule::transformer(0, 0), Contains("d_model and warmup > 0"));
}

TEST_CASE("step, exponential and linear schedules: PyTorch's numbers", "[optim]") {
  const double stepped[] = {0.5, 0.5, 0.5, 0.05, 0.05, 0.05, 0.005, 0.005, 0.005, 0.0005};
  const double decayed[] = {0.5,      0.45,      0.405,      0.3645,      0.32805,
                            0.295245, 0.2657205, 0.23914845, 0.215233605, 0.1937102445};
  const double line[] = {0.5, 0.42, 0.34, 0.26, 0.18, 0.1, 0.1, 0.1, 0.1, 0.1};
  for (int64_t i = 0; i < 10; ++i) {
    CHECK(schedule::step(i, {.lr = 0.5, .every = 3, .factor = 0.1}) == Approx(stepped[i]));
    CHECK(schedule::exponential(i, 0.5, 0.9) == Approx(decayed[i]));
    CHECK(schedule::linear(i, {.lr = 0.5, .min_lr = 0.1, .steps = 5}) == Approx(line[i]));
  }
  const schedule::DecayOptions warm{.lr = 2, .min_lr = 1, .warmup = 3, .steps = 7};
  CHECK(schedule::linear(0, warm) == Approx(0.5));
  CHECK(schedule::linear(2, warm) == Approx(1.5));
  CHECK(schedule::linear(3, warm) == 2);
  CHECK(schedule::linear(5, warm) == Approx(1.5));
  CHECK(schedule::linear(7, warm) == 1);
  CHECK_THROWS_WITH(schedule::step(-1, {}), Contains("schedule::step: expected step"));
  CHECK_THROWS_WITH(schedule::step(0, {.every = 0}), Contains("expected every > 0, got 0"));
  CHECK_THROWS_WITH(schedule::exponential(-1, 1, 1), Contains("schedule::exponential: expected"));
  CHECK_THROWS_WITH(schedule::linear(0, {.warmup = 3}), Contains("schedule::linear: expected"));
}

TEST_CASE("Plateau: PyTorch's numbers", "[optim]") {
  const std::vector<double> losses{1,   0.9, 0.95, 0.92, 0.91, 0.5, 0.5,     0.5, 0.5, NAN,
                                   0.2, 0.3, 0.3,  0.3,  0.3,  0.3, 0.19999, 0.3, 0.3, 0.3};
  using Rates = std::vector<double>;
  CHECK(rates({.lr = 0.5, .factor = 0.5, .patience = 1}, losses) ==
        Rates{0.5,      0.5,      0.5,       0.25,      0.25,       0.25,      0.25,
              0.125,    0.125,    0.0625,    0.0625,    0.0625,     0.03125,   0.03125,
              0.015625, 0.015625, 0.0078125, 0.0078125, 0.00390625, 0.00390625});
  const Rates cooled =
      rates({.lr = 0.5, .factor = 0.1, .patience = 0, .cooldown = 2, .min_lr = 0.005}, losses);
  for (size_t i = 0; i < cooled.size(); ++i)
    CHECK(cooled[i] == Approx(i < 2 ? 0.5 : i < 6 ? 0.05 : 0.005));
  CHECK(rates({.lr = 1, .factor = 0.5, .patience = 2, .threshold = 0.1}, losses) ==
        Rates{1,    1,    1,    0.5,   0.5,   0.5,   0.5,    0.5,    0.25,   0.25,
              0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.0625, 0.0625, 0.0625, 0.03125});
  // Negative losses, too, are better if they are lower by a fraction of |best|.
  CHECK(rates({.lr = 1, .factor = 0.5, .patience = 0, .threshold = 0.1}, {-1, -1.05, -1.2}) ==
        Rates{1, 0.5, 0.5});
  CHECK(rates({.lr = 1, .patience = 0}, {INFINITY, NAN, 1}).back() == Approx(0.01));
}

TEST_CASE("Plateau: saved and restored, it continues unchanged", "[optim]") {
  const schedule::PlateauOptions options{.lr = 0.5, .factor = 0.5, .patience = 1, .cooldown = 1};
  const double losses[] = {3, 2, 2, 2, 2.5, 1, 1.5, 1.5, 1.5, 1.5, 1.5};
  schedule::Plateau through(options), first(options);
  for (size_t i = 0; i < std::size(losses); ++i) {
    schedule::Plateau second(options);
    second.load_state_dict(first.state_dict());
    first.load_state_dict(second.state_dict());
    CHECK(second.lr() == through.lr());
    CHECK(second.step(losses[i]) == through.step(losses[i]));
    first.load_state_dict(second.state_dict());
  }
  CHECK(through.lr() < 0.2);
  CHECK_THROWS_WITH(first.load_state_dict({{"lr", scalar(1, float64)}}),
                    Contains("schedule::Plateau: ") && Contains("missing: best, bad, cooldown"));
  const double lr = first.lr();
  const auto refused = [&](size_t which, const Tensor& value, const std::string& error) {
    NamedTensors state = first.state_dict();
    state[which].second = value;
    CHECK_THROWS_WITH(first.load_state_dict(state), Contains("schedule::Plateau: " + error));
    CHECK(first.lr() == lr);
  };
  for (const double bad : {-1.0, double{NAN}, double{INFINITY}})
    refused(0, scalar(bad, float64), "expected a finite lr >= 0, got ");
  refused(1, scalar(NAN, float64), "expected a number for best, got nan");
  const Tensor too_many = full({}, 0x1p54, int64);
  refused(2, full({}, -100, int64), "expected counts from 0 to 2^53 in bad, got -100");
  refused(2, too_many, "expected counts from 0 to 2^53 in bad, got ");
  refused(3, full({}, -1, int64), "expected counts from 0 to 2^53 in cooldown, got -1");
  refused(3, too_many, "expected counts from 0 to 2^53 in cooldown, got ");
  CHECK_THROWS_WITH(schedule::Plateau({.factor = 1}), Contains("expected factor in [0, 1), got 1"));
  CHECK_THROWS_WITH(schedule::Plateau({.lr = NAN}), Contains("expected lr and min_lr >= 0"));
  CHECK_THROWS_WITH(schedule::Plateau({.patience = -1}), Contains("patience and cooldown >= 0"));
  CHECK_THROWS_WITH(schedule::Plateau({.threshold = -1}), Contains("expected threshold in [0, 1)"));
}

TEST_CASE("schedules: the first step, the last one and those beyond", "[optim]") {
  using schedule::cosine, schedule::linear;
  constexpr int64_t far = INT64_MAX;
  const schedule::DecayOptions cold{.lr = 2, .min_lr = 1, .steps = 8},
      warm{.lr = 2, .min_lr = 1, .warmup = 4, .steps = 8},
      only_warm{.lr = 2, .min_lr = 1, .warmup = 8, .steps = 8}, one{.lr = 2, .steps = 1};
  const auto ends = [&](const schedule::DecayOptions& o, double first, double linear_last,
                        double cosine_last, double after) {
    CAPTURE(o.warmup, o.steps);
    CHECK(linear(0, o) == Approx(first));
    CHECK(cosine(0, o) == Approx(first));
    CHECK(linear(o.steps - 1, o) == Approx(linear_last));
    CHECK(cosine(o.steps - 1, o) == Approx(cosine_last));
    for (const int64_t step : {o.steps, o.steps + 1, far}) {
      CHECK(linear(step, o) == after);
      CHECK(cosine(step, o) == after);
    }
  };
  // Before the end, x is 7/8 and 3/4: 1 + (1 - x), and 1 + (1 + cos(pi x)) / 2.
  ends(cold, 2, 1.125, 1 + (1 + std::cos(std::numbers::pi * 7 / 8)) / 2, 1);
  ends(warm, 0.4, 1.25, 1 + (1 - std::sqrt(0.5)) / 2, 1);
  ends(only_warm, 2.0 / 9, 16.0 / 9, 16.0 / 9, 1);
  ends(one, 2, 2, 2, 0);  // min_lr is 0 by default
  const schedule::StableDecayOptions all_decay{.lr = 2, .min_lr = 1, .decay = 8, .steps = 8};
  for (const int64_t step : {0, 4, 7})
    CHECK(schedule::warmup_stable_decay(step, all_decay) == Approx(linear(step, cold)));
  CHECK(schedule::warmup_stable_decay(far, all_decay) == 1);
  const schedule::StableDecayOptions late{.lr = 2, .min_lr = 1, .decay = 1, .steps = 8};
  CHECK(schedule::warmup_stable_decay(7, late) == 2);
  CHECK(schedule::warmup_stable_decay(8, late) == 1);
  CHECK(schedule::constant(0, 2) == 2);
  CHECK(schedule::constant(far, 2) == 2);
  CHECK(schedule::linear_warmup(far, 2, 4) == 2);
  CHECK(schedule::exponential(0, 2, 0.5) == 2);
  CHECK(schedule::exponential(far, 2, 0.5) == 0);
  CHECK(schedule::step(0, {.lr = 2, .every = far}) == 2);
  CHECK(schedule::transformer(0, 1, 1) == 1);
  CHECK(schedule::transformer(3, 4) == Approx(0.5 * 4 * std::pow(4000, -1.5)));  // 4000 by default
}

TEST_CASE("schedules: what their options must not be", "[optim]") {
  const std::string steps = "expected step and warmup >= 0, got ";
  CHECK_THROWS_WITH(schedule::cosine(0, {}), Contains("expected steps > 0, and >= warmup, got 0"));
  CHECK_THROWS_WITH(schedule::linear(0, {}), Contains("expected steps > 0, and >= warmup, got 0"));
  CHECK_THROWS_WITH(schedule::cosine(-1, {.steps = 4}), "schedule::cosine: " + steps + "-1 and 0");
  CHECK_THROWS_WITH(schedule::linear(0, {.warmup = -1, .steps = 4}), Contains(steps + "0 and -1"));
  CHECK_THROWS_WITH(schedule::linear_warmup(0, 1, -1), Contains(steps + "0 and -1"));
  CHECK_THROWS_WITH(schedule::warmup_stable_decay(0, {.warmup = -1, .decay = 1, .steps = 4}),
                    Contains(steps + "0 and -1"));
  CHECK_THROWS_WITH(schedule::transformer(-1, 4), Contains(steps + "-1"));
  CHECK_THROWS_WITH(schedule::transformer(0, 4, 0), Contains("d_model and warmup > 0"));
}

TEST_CASE("schedules: options left out have their defaults", "[optim]") {
  CHECK(schedule::step(2, {.lr = 1}) == Approx(0.01));
  CHECK(schedule::warmup_stable_decay(0, {.lr = 1, .decay = 2, .steps = 4}) == 1);
  CHECK_THROWS_WITH(schedule::warmup_stable_decay(0, {.decay = 1}),
                    Contains("warmup 0, decay 1, steps 0"));  // `steps` is required
}

TEST_CASE("Plateau: a tie, tiny reductions, and options at and beyond their bounds", "[optim]") {
  using Rates = std::vector<double>;
  // An equal loss is no improvement, whatever the threshold.
  CHECK(rates({.lr = 1, .factor = 0.5, .patience = 0, .threshold = 0}, {2, 2, 1}) ==
        Rates{1, 0.5, 0.5});
  // As in PyTorch, a reduction by 1e-8 or less is skipped.
  CHECK(rates({.lr = 3e-8, .factor = 0.5, .patience = 0}, {1, 1, 1, 1}) ==
        Rates{3e-8, 1.5e-8, 1.5e-8, 1.5e-8});
  CHECK_NOTHROW(schedule::Plateau({.lr = 0, .factor = 0, .patience = 0, .threshold = 0}));
  const std::string rates_wanted = "schedule::Plateau: expected lr and min_lr >= 0";
  CHECK_THROWS_WITH(schedule::Plateau({.lr = -1}), Contains(rates_wanted));
  CHECK_THROWS_WITH(schedule::Plateau({.lr = INFINITY}), Contains(rates_wanted));
  CHECK_THROWS_WITH(schedule::Plateau({.min_lr = -1}), Contains(rates_wanted));
  CHECK_THROWS_WITH(schedule::Plateau({.factor = -0.1}), Contains("expected factor in [0, 1)"));
  CHECK_THROWS_WITH(schedule::Plateau({.cooldown = -1}), Contains("patience and cooldown >= 0"));
  CHECK_THROWS_WITH(schedule::Plateau({.threshold = 1}), Contains("expected threshold in [0, 1)"));
}

}  // namespace schedule_test
