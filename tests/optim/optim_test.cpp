#include "gradus/optim/optim.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <numbers>

#include "gradus/core/core.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

using Factory = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

const std::vector<std::pair<std::string, Factory>>& optimisers() {
  static const std::vector<std::pair<std::string, Factory>> all = {
      {"sgd", [](auto p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 0.1}); }},
      {"sgd_decay",
       [](auto p) {
         return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 0.1, .weight_decay = 0.1});
       }},
      {"sgd_momentum",
       [](auto p) {
         return std::make_unique<optim::SGD>(
             p, optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1});
       }},
      {"sgd_nesterov",
       [](auto p) {
         return std::make_unique<optim::SGD>(
             p, optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .nesterov = true});
       }},
      {"adam",
       [](auto p) { return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 0.02}); }},
      {"adam_decay",
       [](auto p) {
         return std::make_unique<optim::Adam>(
             p, optim::AdamOptions{
                    .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1});
       }},
      {"adamw",
       [](auto p) { return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 0.02}); }},
      {"adamw_options",
       [](auto p) {
         return std::make_unique<optim::AdamW>(
             p, optim::AdamWOptions{
                    .lr = 0.02, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.3});
       }},
      {"rmsprop",
       [](auto p) {
         return std::make_unique<optim::RMSprop>(p, optim::RMSpropOptions{.lr = 0.02});
       }},
      {"rmsprop_momentum",
       [](auto p) {
         return std::make_unique<optim::RMSprop>(
             p, optim::RMSpropOptions{.lr = 0.02, .alpha = 0.9, .eps = 1e-3, .momentum = 0.8});
       }},
      {"rmsprop_centered",
       [](auto p) {
         return std::make_unique<optim::RMSprop>(
             p, optim::RMSpropOptions{
                    .lr = 0.02, .alpha = 0.8, .centered = true, .weight_decay = 0.1});
       }},
      {"rmsprop_all",
       [](auto p) {
         return std::make_unique<optim::RMSprop>(
             p,
             optim::RMSpropOptions{
                 .lr = 0.02, .alpha = 0.9, .momentum = 0.5, .centered = true, .weight_decay = 0.2});
       }},
  };
  return all;
}

// Three parameters and 20 steps' gradients; the last parameter has none in every fourth step.
struct Problem {
  std::vector<Tensor> params, grads;
  explicit Problem(Dtype dtype) {
    const golden::File file("optimisers");
    for (int i = 0; i < 3; ++i) {
      params.push_back(file.get("start." + std::to_string(i), dtype).clone().requires_grad_());
      grads.push_back(file.get("grads." + std::to_string(i), dtype));
    }
  }
  void set_grads(int64_t step) const {
    for (size_t i = 0; i < 3; ++i) params[i].set_grad(grads[i][step]);
    if (step % 4 == 3) params[2].set_grad({});
  }
};

}  // namespace

TEST_CASE("optimisers follow PyTorch's over 20 steps", "[optim][golden]") {
  const golden::File file("optimisers");
  for (Dtype dtype : {float64, float32})
    for (bool clip : {false, true})
      for (const auto& [name, make] : optimisers()) {
        CAPTURE(dtype, clip, name);
        const Problem problem(dtype);
        const auto optimiser = make(problem.params);
        for (int64_t step = 0; step < 20; ++step) {
          problem.set_grads(step);
          const double norm = clip ? optimiser->step({.max_grad_norm = 3}) : optimiser->step();
          const double expected = clip ? file.get("norms")[step].item() : 0;
          CHECK(norm == Approx(expected).epsilon(dtype == float64 ? 1e-12 : 1e-6));
        }
        for (size_t i = 0; i < 3; ++i) {
          const std::string key = name + (clip ? "_clipped." : ".") + std::to_string(i);
          CHECK(golden::difference(problem.params[i], file.get(key)) <
                (dtype == float64 ? 1e-12 : 1e-5));
        }
      }
}

TEST_CASE("an optimiser resumes to the same bits", "[optim]") {
  for (const auto& [name, make] : optimisers()) {
    CAPTURE(name);
    const Problem through(float32), before(float32);
    const auto uninterrupted = make(through.params), first = make(before.params);
    for (int64_t step = 0; step < 10; ++step) {
      through.set_grads(step), uninterrupted->step();
      before.set_grads(step), first->step();
    }
    Problem after(float32);
    const NoGrad no_grad;
    for (size_t i = 0; i < 3; ++i) after.params[i].copy_(before.params[i]);
    const auto second = make(after.params);
    second->load_state_dict(first->state_dict());
    for (int64_t step = 10; step < 20; ++step) {
      through.set_grads(step), uninterrupted->step();
      after.set_grads(step), second->step();
    }
    for (size_t i = 0; i < 3; ++i) CHECK(golden::same(through.params[i], after.params[i]));
  }
}

TEST_CASE("an optimiser's state names what it remembers", "[optim]") {
  const Problem problem(float32);
  optim::AdamW adam(problem.params);
  problem.set_grads(3);
  adam.step();
  const NamedTensors state = adam.state_dict();
  REQUIRE(state.size() == 7);
  CHECK(state[0].first == "step");
  CHECK(state[0].second.to_vector<int64_t>() == std::vector<int64_t>{1, 1, 0});
  CHECK(state[1].first == "exp_avg.0");
  CHECK(state[6].first == "exp_avg_sq.2");

  optim::SGD sgd(problem.params, {.momentum = 0.9});
  CHECK_THROWS_WITH(sgd.load_state_dict(state), Contains("SGD: ") &&
                                                    Contains("missing: momentum.0") &&
                                                    Contains("unexpected: exp_avg.0"));
}

TEST_CASE("results do not depend on the number of threads", "[optim]") {
  manual_seed(2);
  const Tensor start = randn({300, 333}), gradient = randn({300, 333});
  std::vector<Tensor> results;
  const int before = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const Tensor p = start.clone().requires_grad_();
    optim::AdamW adam({p});
    for (int step = 0; step < 3; ++step) p.set_grad(gradient), adam.step({.max_grad_norm = 1});
    results.push_back(p.detach());
  }
  set_num_threads(before);
  CHECK(golden::same(results[0], results[1]));
  CHECK(golden::same(results[0], results[2]));
}

TEST_CASE("groups have their own learning rate and weight decay", "[optim]") {
  const Tensor w = ones({2, 2}).requires_grad_(), b = ones({2}).requires_grad_();
  w.set_grad(ones({2, 2})), b.set_grad(ones({2}));
  optim::SGD sgd({{.params = {w}, .weight_decay = 0.5}, {.params = {b}, .lr_scale = 10}},
                 {.lr = 0.1});
  sgd.set_lr(0.01);
  sgd.step();
  CHECK(w.to_vector<float>()[0] == Approx(1 - 0.01 * 1.5));
  CHECK(b.to_vector<float>()[0] == Approx(1 - 0.1));

  const optim::ParameterGroups groups = optim::decay_groups({w, b});
  REQUIRE(groups.list.size() == 2);
  CHECK(groups.list[0].params.size() == 1);
  optim::AdamW adam(groups, {.weight_decay = 0.1});
  CHECK(*adam.groups()[0].weight_decay == 0.1);
  CHECK(*adam.groups()[1].weight_decay == 0);
}

TEST_CASE("a tied parameter is clipped and updated once", "[optim]") {
  struct Tied : nn::Module {
    nn::Linear first, second;
    Tied()
        : first(child("first", nn::Linear(2, 2, {.bias = false}))),
          second(child("second", nn::Linear(first.weight))) {}
  };
  Tied model;
  CHECK(model.parameters().size() == 1);
  const Tensor before = model.first.weight.detach().clone();
  optim::SGD sgd(model.parameters(), {.lr = 1});
  sum(model.second(model.first(ones({1, 2})))).backward();
  const Tensor gradient = model.first.weight.grad();
  CHECK(sgd.step({.max_grad_norm = 1e6}) == Approx(norm(gradient).item()));
  CHECK(golden::difference(model.second.weight, before - gradient) < 1e-6);
}

TEST_CASE("step neither writes gradients nor records a graph", "[optim]") {
  const Problem problem(float32);
  problem.set_grads(0);
  const Tensor before = problem.params[0].grad().clone();
  optim::AdamW adam(problem.params);
  adam.step({.max_grad_norm = 1e-3});
  CHECK(golden::same(problem.params[0].grad(), before));
  CHECK(problem.params[0].is_leaf());
  adam.zero_grad();
  CHECK(!problem.params[0].grad().defined());
  const Tensor still = problem.params[0].detach().clone();
  adam.step();
  CHECK(golden::same(problem.params[0], still));
}

TEST_CASE("backward through a parameter changed by step is an error", "[optim]") {
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD sgd({w}, {.lr = 0.1});
  const Tensor loss = sum(w * w);
  w.set_grad(ones({2}));
  sgd.step();
  CHECK_THROWS_AS(loss.backward(), Error);
}

TEST_CASE("a parameter converted after its first update is refused, and none is updated",
          "[optim]") {
  nn::Linear layer(2, 2);
  const Tensor other = ones({2}).requires_grad_();
  optim::AdamW adam({other, layer.weight}, {.lr = 0.1});
  other.set_grad(ones({2})), layer.weight.set_grad(ones({2, 2}));
  adam.step();
  layer.to(float64);
  layer.weight.set_grad(ones({2, 2}, float64));
  const Tensor before = other.detach().clone();
  CHECK_THROWS_WITH(adam.step(),
                    "AdamW: parameter 1 of shape (2, 2): its dtype has changed to "
                    "float64 since its last update");
  CHECK(golden::same(other.detach(), before));
  CHECK(adam.state_dict()[0].second.to_vector<int64_t>() == std::vector<int64_t>{1, 1});
}

TEST_CASE("clip_grad_norm scales gradients by their common norm", "[optim]") {
  const Tensor a = zeros({2}).requires_grad_(), b = zeros({1}).requires_grad_();
  const Tensor unused = zeros({3}).requires_grad_();
  a.set_grad(tensor({2, 3})), b.set_grad(tensor({6}));
  CHECK(optim::grad_norm({a, b, unused}) == Approx(7));
  CHECK(optim::clip_grad_norm({a, b, unused}, 10) == Approx(7));
  CHECK(b.grad().item() == 6);
  CHECK(optim::clip_grad_norm({a, b, unused}, 0.7) == Approx(7));
  CHECK(b.grad().item() == Approx(0.6));
  CHECK(a.grad()[1].item() == Approx(0.3));
  CHECK(!unused.grad().defined());
  CHECK_THROWS_WITH(optim::clip_grad_norm({a}, 0),
                    Contains("expected a maximal gradient norm > 0, got 0"));

  const Tensor shared = tensor({3, 4});  // as a sum hands one gradient to both its terms
  const Tensor c = zeros({2}).requires_grad_(), d = zeros({2}).requires_grad_();
  c.set_grad(shared), d.set_grad(shared);
  const double norm_before = optim::clip_grad_norm({c, d}, 1);
  CHECK(optim::grad_norm({c, d}) == Approx(1).epsilon(1e-5));
  CHECK(norm_before == Approx(5 * std::sqrt(2.0)));
}

TEST_CASE("clipping by a norm that is not finite spoils every gradient", "[optim]") {
  for (double bad : {NAN, INFINITY}) {  // as in PyTorch: times NaN, or times max_norm / inf = 0
    CAPTURE(bad);
    const Tensor a = zeros({2}).requires_grad_(), b = zeros({1}).requires_grad_();
    a.set_grad(tensor({3, 4})), b.set_grad(tensor({bad}));
    optim::SGD sgd({a, b}, {.lr = 1});
    CHECK_FALSE(std::isfinite(sgd.step({.max_grad_norm = 1})));
    CHECK_FALSE(std::isfinite(optim::clip_grad_norm({a, b}, 1)));
    for (const Tensor& x : {a.detach(), a.grad()}) {
      CHECK(std::isnan(x[0].item()) == std::isnan(bad));
      CHECK((std::isnan(bad) || x[1].item() == 0));
    }
    CHECK(std::isnan(b.grad().item()));
    CHECK(std::isnan(b.item()));
  }
}

TEST_CASE("the norm of large gradients neither overflows nor loses digits", "[optim]") {
  const Tensor p = zeros({1000, 1000}).requires_grad_();
  p.set_grad(full({1000, 1000}, 1e30));
  CHECK(optim::grad_norm({p}) == Approx(1e33).epsilon(1e-6));
  p.set_grad(full({1000, 1000}, 0.1));
  CHECK(optim::grad_norm({p}) == Approx(100).epsilon(1e-7));
}

TEST_CASE("optimisers take gradients in any layout", "[optim]") {
  const Tensor p = zeros({2, 3}).requires_grad_();
  p.set_grad(tensor({{1, 2}, {3, 4}, {5, 6}}).transpose(0, 1));
  optim::SGD sgd({p}, {.lr = 1});
  sgd.step({.max_grad_norm = 1e9});
  CHECK(p.to_vector<float>() == std::vector<float>{-1, -3, -5, -2, -4, -6});
  p.set_grad(scalar(1).expand({2, 3}));
  sgd.step();
  CHECK(p.to_vector<float>() == std::vector<float>{-2, -4, -6, -3, -5, -7});
}

TEST_CASE("optimisers refuse bad parameters and options", "[optim]") {
  const Tensor w = ones({2, 2}).requires_grad_();
  CHECK_THROWS_WITH(optim::SGD(std::vector<Tensor>{}), "SGD: no parameters given");
  CHECK_THROWS_WITH(optim::AdamW({w, w}),
                    Contains("AdamW: parameter 1 of shape (2, 2) is listed twice"));
  CHECK_THROWS_WITH(optim::Adam({ones({2})}),
                    Contains("none of the 1 parameters requires a gradient"));
  CHECK_THROWS_WITH(optim::Adam({w * 2}),
                    Contains("parameter 0 of shape (2, 2): expected a contiguous leaf"));
  CHECK_THROWS_WITH(optim::SGD({w}, {.lr = -1}), Contains("learning rate >= 0, got -1"));
  CHECK_THROWS_WITH(optim::SGD({w}, {.momentum = 1}),
                    Contains("SGD: expected 0 <= momentum < 1, got 1"));
  CHECK_THROWS_WITH(optim::SGD({w}, {.nesterov = true}), Contains("nesterov needs momentum"));
  CHECK_THROWS_WITH(optim::AdamW({w}, {.beta2 = 1}),
                    Contains("AdamW: expected betas in [0, 1), got 1"));
  CHECK_THROWS_WITH(optim::AdamW({w}, {.eps = -1}), Contains("AdamW: expected eps >= 0"));
  CHECK_THROWS_WITH(optim::AdamW({w}, {.weight_decay = -1}),
                    Contains("weight_decay and lr_scale >= 0"));
  CHECK_THROWS_WITH(optim::AdamW({w}).step({.max_grad_norm = -1}),
                    Contains("maximal gradient norm > 0"));
  CHECK_THROWS_WITH(optim::AdamW({w}).set_lr(std::nan("")), Contains("finite learning rate"));
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
  CHECK(cosine(5, {.lr = 2, .min_lr = 1, .warmup = 5, .steps = 5}) == 1);  // nothing but warm-up
  CHECK(cosine(4, {.lr = 2, .min_lr = 1, .warmup = 5, .steps = 5}) == Approx(2 * 5.0 / 6));
  CHECK(cosine(0, {.lr = 2, .warmup = 0, .steps = 4}) == 2);
  CHECK(cosine(3, {.lr = 2, .min_lr = 0, .warmup = 0, .steps = 4}) ==
        Approx(1 - std::sqrt(0.5)));  // 1 + cos(3/4 pi)
  CHECK_THROWS_WITH(constant(-1, 1), Contains("expected step and warmup >= 0, got -1"));
  CHECK_THROWS_WITH(cosine(0, {.warmup = 10, .steps = 5}),
                    Contains("expected steps > 0, and >= warmup, got 5 and 10"));
  CHECK_THROWS_WITH(optim::schedule::transformer(0, 0), Contains("d_model and warmup > 0"));
}

TEST_CASE("default options", "[optim]") {
  const auto after = [](auto&& make) {
    const Tensor p = tensor({2}, float64).requires_grad_();
    const auto optimiser = make(std::vector<Tensor>{p});
    for (double g : {1.0, -0.5, 3.0}) p.set_grad(tensor({g}, float64)), optimiser->step();
    return p.item();
  };
  const auto adam = [](double decay) {
    double p = 2, m = 0, v = 0;
    int t = 0;
    for (double g : {1.0, -0.5, 3.0}) {
      ++t;
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      p -= 1e-3 * decay * p;
      p -= 1e-3 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    }
    return p;
  };
  CHECK(after([](auto p) { return std::make_unique<optim::SGD>(p); }) ==
        Approx(2 - 1e-3 * 3.5).epsilon(1e-14));
  CHECK(after([](auto p) { return std::make_unique<optim::Adam>(p); }) ==
        Approx(adam(0)).epsilon(1e-14));
  CHECK(after([](auto p) { return std::make_unique<optim::AdamW>(p); }) ==
        Approx(adam(0.01)).epsilon(1e-14));

  using namespace optim::schedule;
  CHECK(cosine(0, {.steps = 4}) == 1e-3);
  CHECK(cosine(2, {.steps = 4}) == Approx(5e-4));
  CHECK_THROWS_WITH(cosine(1, {}), Contains("expected steps > 0"));  // it must be given
  CHECK(optim::schedule::transformer(99, 64) == optim::schedule::transformer(99, 64, 4000));
}

TEST_CASE("optimisers with every option, groups, clipping and a changing rate at once", "[optim]") {
  // Parameter 1 belongs to a group of its own rate and decay, and is float32 among float64. Each
  // has one element.
  const double scales[] = {1, 0.25}, decays[] = {0.2, 0.4}, lrs[] = {0.1, 0.05, 0.2};
  using Update = std::function<void(double& p, double g, double& a, double& b, double lr,
                                    double decay, int t)>;
  const auto adam = [](bool decoupled) {
    return [=](double& p, double g, double& m, double& v, double lr, double decay, int t) {
      if (!decoupled) g += decay * p;
      m = 0.7 * m + 0.3 * g;
      v = 0.8 * v + 0.2 * g * g;
      const double step =
          (m / (1 - std::pow(0.7, t))) / (std::sqrt(v / (1 - std::pow(0.8, t))) + 1);
      p -= lr * ((decoupled ? decay * p : 0) + step);
    };
  };
  const auto nesterov = [](double& p, double g, double& u, double&, double lr, double decay, int) {
    g += decay * p;
    u = 0.6 * u + g;
    p -= lr * (g + 0.6 * u);
  };
  using Make = std::function<std::unique_ptr<optim::Optimizer>(const optim::ParameterGroups&)>;
  const std::vector<std::pair<Make, Update>> all = {
      {[](auto groups) {
         return std::make_unique<optim::SGD>(
             groups,
             optim::SGDOptions{.lr = 9, .momentum = 0.6, .nesterov = true, .weight_decay = 0.2});
       },
       nesterov},
      {[](auto groups) {
         return std::make_unique<optim::Adam>(
             groups, optim::AdamOptions{
                         .lr = 9, .beta1 = 0.7, .beta2 = 0.8, .eps = 1, .weight_decay = 0.2});
       },
       adam(false)},
      {[](auto groups) {
         return std::make_unique<optim::AdamW>(
             groups, optim::AdamWOptions{
                         .lr = 9, .beta1 = 0.7, .beta2 = 0.8, .eps = 1, .weight_decay = 0.2});
       },
       adam(true)}};
  for (size_t k = 0; k < all.size(); ++k) {
    INFO(k);
    const Tensor p = tensor({2}, float64).requires_grad_(), q = tensor({-3}).requires_grad_();
    const auto optimiser = all[k].first(std::vector<optim::ParameterGroup>{
        {.params = {p}}, {.params = {q}, .lr_scale = 0.25, .weight_decay = 0.4}});
    CHECK(optimiser->lr() == 9);
    double values[] = {2, -3}, a[2] = {}, b[2] = {};
    for (int t = 1; t <= 3; ++t) {
      const double g[] = {3.0 * t, 4.0 * t}, norm = 5.0 * t, factor = 2 / (norm + 1e-6);
      p.set_grad(tensor({g[0]}, float64)), q.set_grad(tensor({g[1]}));
      optimiser->set_lr(lrs[t - 1]);
      CHECK(optimiser->step({.max_grad_norm = 2}) == Approx(norm));
      for (size_t i = 0; i < 2; ++i)
        all[k].second(values[i], factor * g[i], a[i], b[i], lrs[t - 1] * scales[i], decays[i], t);
    }
    CHECK(p.item() == Approx(values[0]).epsilon(1e-13));
    CHECK(q.item() == Approx(values[1]).epsilon(1e-6));
  }
}

TEST_CASE("a group whose rate is 0 remembers, but stays as it is", "[optim]") {
  const Tensor p = tensor({1, 2}).requires_grad_(), q = tensor({3}).requires_grad_();
  optim::AdamW adam({{.params = {p}, .lr_scale = 0}, {.params = {q}}}, {.beta1 = 0.5});
  p.set_grad(tensor({4, 8})), q.set_grad(tensor({1}));
  adam.step();
  CHECK(p.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(q.item() < 3);
  CHECK(adam.state_dict()[1].second.to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("clipping: norms at, below and beyond the bound, 0 and infinite", "[optim]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor p = zeros({2}, float64).requires_grad_();
  const auto gradient_after = [&](std::initializer_list<double> g, double max_norm) {
    p.set_grad(tensor(g, float64));
    optim::clip_grad_norm({p}, max_norm);
    const auto clipped = p.grad().to_vector<double>();
    // A step of rate 1 moves by the same.
    const Tensor q = zeros({2}, float64).requires_grad_();
    q.set_grad(tensor(g, float64));
    optim::SGD({q}, {.lr = 1}).step({.max_grad_norm = max_norm});
    CHECK(golden::same(-q.detach(), p.grad()));
    return clipped;
  };
  using Values = std::vector<double>;
  CHECK(gradient_after({3, 4}, 5.1) == Values{3, 4});
  CHECK(gradient_after({3, 4}, 5)[0] == Approx(3 * (5 / (5 + 1e-6))).epsilon(1e-14));
  CHECK(gradient_after({3, 4}, 2.5)[1] == Approx(4 * (2.5 / (5 + 1e-6))).epsilon(1e-14));
  CHECK(gradient_after({3e-7, 4e-7}, 1e-6)[0] == Approx(2e-7).epsilon(1e-13));
  CHECK(gradient_after({0, 0}, 1) == Values{0, 0});
  CHECK(gradient_after({3e5, 4e5}, infinity) == Values{3e5, 4e5});
  p.set_grad(tensor({infinity, 4}, float64));
  CHECK(optim::clip_grad_norm({p}, 1) == infinity);
  CHECK(p.grad()[1].item() == 0);
  CHECK_THROWS_WITH(optim::clip_grad_norm({p}, std::nan("")), Contains("> 0, got nan"));
}

TEST_CASE("a step that is refused changes nothing", "[optim]") {
  struct Pair : nn::Module {
    Tensor first = param("first", ones({2}));
    nn::Linear second{child("second", nn::Linear(2, 1, {.bias = false}))};
  };
  Pair model;
  optim::AdamW adam(model.parameters(), {.lr = 0.1});
  const auto set_grads = [&] {
    for (const Tensor& p : model.parameters()) p.set_grad(ones_like(p));
  };
  set_grads();
  adam.step();
  const Tensor before = model.first.detach().clone();
  const NamedTensors state = adam.state_dict();
  for (double bad : {0.0, -1.0, std::nan("")})
    CHECK_THROWS_WITH(adam.step({.max_grad_norm = bad}),
                      Contains("AdamW: expected a maximal gradient norm > 0"));
  model.second.to(float64);
  set_grads();
  CHECK_THROWS_WITH(
      adam.step(),
      "AdamW: parameter 1 of shape (1, 2): its dtype has changed to float64 since its last update");
  CHECK(golden::same(model.first, before));
  CHECK(adam.state_dict()[0].second.to_vector<int>() == std::vector<int>{1, 1});
  CHECK(golden::same(adam.state_dict()[1].second, state[1].second));
  model.second.to(float32);
  set_grads();
  adam.step();
  CHECK(adam.state_dict()[0].second.to_vector<int>() == std::vector<int>{2, 2});
  CHECK_THROWS_AS(adam.set_lr(-1), Error);
  CHECK_THROWS_AS(adam.set_lr(std::numeric_limits<double>::infinity()), Error);
  CHECK(adam.lr() == 0.1);
}

TEST_CASE("optimisers refuse each option that is out of range, of groups too", "[optim]") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor w = ones({2}).requires_grad_();
  for (double bad : {-0.1, infinity, nan}) {
    INFO(bad);
    CHECK_THROWS_WITH(optim::SGD({w}, {.lr = bad}), Contains("SGD: expected a finite learning"));
    CHECK_THROWS_WITH(optim::SGD({w}, {.weight_decay = bad}),
                      Contains("SGD: expected weight_decay and lr_scale >= 0"));
    CHECK_THROWS_WITH(optim::SGD({{.params = {w}, .lr_scale = bad}}),
                      Contains("expected weight_decay and lr_scale >= 0"));
    CHECK_THROWS_WITH(optim::SGD({{.params = {w}, .weight_decay = bad}}),
                      Contains("expected weight_decay and lr_scale >= 0"));
    CHECK_THROWS_WITH(optim::SGD({w}, {.momentum = bad}), Contains("expected 0 <= momentum < 1"));
    CHECK_THROWS_WITH(optim::Adam({w}, {.beta1 = bad}), Contains("Adam: expected betas in [0, 1)"));
    CHECK_THROWS_WITH(optim::Adam({w}, {.beta2 = bad}), Contains("Adam: expected betas in [0, 1)"));
  }
  CHECK_THROWS_WITH(optim::AdamW({w}, {.beta1 = 1}), Contains("AdamW: expected betas in [0, 1)"));
  CHECK_THROWS_WITH(optim::AdamW({w}, {.eps = nan}), Contains("AdamW: expected eps >= 0"));
  CHECK_NOTHROW(optim::Adam({w}, {.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 0}));
  using namespace optim::schedule;
  CHECK_THROWS_WITH(linear_warmup(-1, 1, 4), Contains("schedule::linear_warmup: expected step"));
  CHECK_THROWS_WITH(linear_warmup(0, 1, -1), Contains("got 0 and -1"));
  CHECK_THROWS_WITH(cosine(-1, {}), Contains("schedule::cosine: expected step"));
  CHECK_THROWS_WITH(optim::schedule::transformer(-1, 64), Contains("expected step"));
  CHECK_THROWS_WITH(optim::schedule::transformer(0, 64, 0), Contains("d_model and warmup > 0"));
}
