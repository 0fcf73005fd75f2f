// Options of optimisers: defaults, limits, groups, clipping, and steps that are refused.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>

#include "gradus/core/core.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"

namespace optimizer_options_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

/// Updates one element p from its clipped gradient g and two states a and b.
using Update =
    std::function<void(double& p, double g, double& a, double& b, double lr, double decay, int t)>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(const optim::ParameterGroups&)>;

const auto adam = [](bool decoupled) {
  return [=](double& p, double g, double& m, double& v, double lr, double decay, int t) {
    if (!decoupled) g += decay * p;
    m = 0.7 * m + 0.3 * g;
    v = 0.8 * v + 0.2 * g * g;
    const double step = (m / (1 - std::pow(0.7, t))) / (std::sqrt(v / (1 - std::pow(0.8, t))) + 1);
    p -= lr * ((decoupled ? decay * p : 0) + step);
  };
};
const auto nesterov = [](double& p, double g, double& u, double&, double lr, double decay, int) {
  g += decay * p;
  u = 0.6 * u + g;
  p -= lr * (g + 0.6 * u);
};

/// Optimisers with all options, and their rules.
const std::vector<std::pair<Make, Update>>& methods() {
  static const std::vector<std::pair<Make, Update>> all = {
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
  return all;
}

}  // namespace

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
  CHECK_THROWS_WITH(cosine(1, {}), Contains("expected steps > 0"));  // `steps` is required
  CHECK(optim::schedule::transformer(99, 64) == optim::schedule::transformer(99, 64, 4000));
}

TEST_CASE("optimisers with all options, groups, clipping and a changing learning rate", "[optim]") {
  // Parameter 1 belongs to a group with its own learning rate and decay, and is float32 while the
  // others are float64. Each has one element.
  const std::vector<std::pair<Make, Update>>& all = methods();
  const double scales[] = {1, 0.25}, decays[] = {0.2, 0.4}, lrs[] = {0.1, 0.05, 0.2};
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

TEST_CASE("a group with learning rate 0 keeps its state but does not move", "[optim]") {
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
    // A step with learning rate 1 moves by the clipped gradient.
    const Tensor q = zeros({2}, float64).requires_grad_();
    q.set_grad(tensor(g, float64));
    optim::SGD({q}, {.lr = 1}).step({.max_grad_norm = max_norm});
    CHECK((-q.detach()).to_vector<double>() == clipped);
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
                      Contains("AdamW: expected a maximum gradient norm > 0"));
  model.second.to(float64);
  set_grads();
  CHECK_THROWS_WITH(adam.step(),
                    "AdamW: parameter 1 of shape (1, 2): expected float32, the dtype of its state, "
                    "got float64");
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
                      Contains("SGD: expected a finite weight_decay and lr_scale >= 0"));
    CHECK_THROWS_WITH(optim::SGD({{.params = {w}, .lr_scale = bad}}),
                      Contains("expected a finite weight_decay and lr_scale >= 0"));
    CHECK_THROWS_WITH(optim::SGD({{.params = {w}, .weight_decay = bad}}),
                      Contains("expected a finite weight_decay and lr_scale >= 0"));
    CHECK_THROWS_WITH(optim::SGD({w}, {.momentum = bad}), Contains("expected 0 <= momentum < 1"));
    CHECK_THROWS_WITH(optim::Adam({w}, {.beta1 = bad}), Contains("Adam: expected betas in [0, 1)"));
    CHECK_THROWS_WITH(optim::Adam({w}, {.beta2 = bad}), Contains("Adam: expected betas in [0, 1)"));
  }
  CHECK_THROWS_WITH(optim::AdamW({w}, {.beta1 = 1}), Contains("AdamW: expected betas in [0, 1)"));
  for (const double bad : {nan, infinity}) {
    CHECK_THROWS_WITH(optim::Adam({w}, {.eps = bad}), Contains("Adam: expected a finite eps >= 0"));
    CHECK_THROWS_WITH(optim::AdamW({w}, {.eps = bad}), Contains("AdamW: expected a finite eps"));
  }
  CHECK_NOTHROW(optim::Adam({w}, {.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 0}));
  using namespace optim::schedule;
  CHECK_THROWS_WITH(linear_warmup(-1, 1, 4), Contains("schedule::linear_warmup: expected step"));
  CHECK_THROWS_WITH(linear_warmup(0, 1, -1), Contains("got 0 and -1"));
  CHECK_THROWS_WITH(cosine(-1, {}), Contains("schedule::cosine: expected step"));
  CHECK_THROWS_WITH(optim::schedule::transformer(-1, 64), Contains("expected step"));
  CHECK_THROWS_WITH(optim::schedule::transformer(0, 64, 0), Contains("d_model and warmup > 0"));
}

TEST_CASE("RMSprop: state, a variance that rounds below zero, options out of range", "[optim]") {
  const Tensor p = zeros({2}).requires_grad_();
  optim::RMSprop all({p}, {.lr = 1e-3, .momentum = 0.5, .centered = true});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : all.state_dict()) names.push_back(name);
  CHECK(names ==
        std::vector<std::string>{"step", "square_avg.0", "momentum_buffer.0", "grad_avg.0"});
  CHECK(optim::RMSprop({p}, {.centered = true}).state_dict()[2].first == "grad_avg.0");
  CHECK(optim::RMSprop({p}).state_dict().size() == 2);
  // For a constant gradient v - m^2 is 0 up to rounding, which may make it negative.
  const Tensor many = zeros({1000}).requires_grad_();
  optim::RMSprop centered({many}, {.lr = 1e-9, .alpha = 0.8, .centered = true});
  for (int step = 0; step < 300; ++step) {
    many.set_grad(linspace(0.1, 1, 1000));
    centered.step();
  }
  CHECK(sum(isnan(many)).item() == 0);
  for (double bad : {-0.1, 1.0, std::nan("")}) {
    CHECK_THROWS_WITH(optim::RMSprop({p}, {.alpha = bad}), Contains("RMSprop: expected alpha in"));
    CHECK_THROWS_WITH(optim::RMSprop({p}, {.momentum = bad}),
                      Contains("RMSprop: expected 0 <= momentum < 1"));
  }
  for (double bad : {-1.0, double{INFINITY}})
    CHECK_THROWS_WITH(optim::RMSprop({p}, {.eps = bad}),
                      Contains("RMSprop: expected a finite eps >= 0"));
}

TEST_CASE("optimisers take options at the bounds of their ranges, and none beyond", "[optim]") {
  const Tensor w = ones({2, 2}).requires_grad_();
  CHECK_NOTHROW(optim::RMSprop({w}, {.alpha = 0, .eps = 0}));
  CHECK_NOTHROW(optim::Adagrad({w}, {.lr_decay = 0, .initial_sum = 0, .eps = 0}));
  CHECK_NOTHROW(optim::Lion({w}, {.beta1 = 0, .beta2 = 0}));
  CHECK_NOTHROW(optim::Muon({{w}}, {.momentum = 0, .steps = 1}));
  CHECK_NOTHROW(optim::Muon({{w}}, {.steps = 100}));
  CHECK_THROWS_WITH(optim::Muon({{w}}, {.momentum = -0.1}), Contains("Muon: expected 0 <= moment"));
  CHECK_THROWS_WITH(optim::Muon({{w}}, {.steps = 101}), "Muon: expected 1 to 100 steps, got 101");
  CHECK_NOTHROW(optim::newton_schulz(w, 1));
  CHECK_NOTHROW(optim::newton_schulz(w, 100));
  CHECK_THROWS_WITH(optim::newton_schulz(w, 101),
                    "newton_schulz: expected 1 to 100 steps, got 101");
  for (const double bad : {-0.1, 1.0, std::nan("")}) {
    CHECK_THROWS_WITH(optim::Lion({w}, {.beta1 = bad}), Contains("Lion: expected betas in [0, 1)"));
    CHECK_THROWS_WITH(optim::Lion({w}, {.beta2 = bad}), Contains("Lion: expected betas in [0, 1)"));
  }
  const std::string adagrad = "Adagrad: expected a finite lr_decay, initial_sum and eps >= 0";
  for (const double bad : {-0.1, std::nan(""), double{INFINITY}}) {
    CHECK_THROWS_WITH(optim::Adagrad({w}, {.lr_decay = bad}), Contains(adagrad));
    CHECK_THROWS_WITH(optim::Adagrad({w}, {.initial_sum = bad}), Contains(adagrad));
    CHECK_THROWS_WITH(optim::Adagrad({w}, {.eps = bad}), Contains(adagrad));
  }
  // A norm of 0 may be given too, and clips nothing.
  w.set_grad(ones({2, 2}));
  CHECK(optim::SGD({w}, {.lr = 1}).step({.max_grad_norm = 1, .grad_norm = 0}) == 0);
  CHECK(golden::same(w.detach(), zeros({2, 2})));
}

TEST_CASE("a positive eps below the smallest normal number counts as that number", "[optim]") {
  const auto after = [](const auto& make) {
    const Tensor p = tensor({1, 2}).requires_grad_();
    const auto optimiser = make(std::vector<Tensor>{p});
    p.set_grad(tensor({0, 1}));
    optimiser->step();
    return p.to_vector<double>();
  };
  for (const double eps : {1e-40, 0x1p-126}) {
    INFO(eps);
    const std::vector<std::vector<double>> all{
        after([=](auto p) {
          return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 0.5, .eps = eps});
        }),
        after([=](auto p) {
          return std::make_unique<optim::RMSprop>(
              p, optim::RMSpropOptions{.lr = 0.5, .alpha = 0, .eps = eps});
        }),
        after([=](auto p) {
          return std::make_unique<optim::Adagrad>(p, optim::AdagradOptions{.lr = 0.5, .eps = eps});
        })};
    for (const std::vector<double>& p : all) {
      CHECK(p[0] == 1);  // not NaN, although its gradient is 0
      CHECK(p[1] == Approx(1.5));
    }
  }
  CHECK(optim::Adam::Chunk<double>::eps_of(1e-40) == 1e-40);
  CHECK(optim::Adam::Chunk<float>::eps_of(0) == 0);
}

TEST_CASE("a parameter that is frozen at first may be converted before its first update",
          "[optim]") {
  nn::Linear layer(2, 2);
  layer.weight.requires_grad_(false);
  const Tensor other = ones({2}).requires_grad_();
  optim::AdamW adam({other, layer.weight});
  layer.to(float64);
  layer.weight.requires_grad_();
  for (int step = 0; step < 2; ++step) {
    layer.weight.set_grad(ones({2, 2}, float64));
    adam.step();
  }
  const NamedTensors state = adam.state_dict();
  CHECK(state[0].second.to_vector<int>() == std::vector<int>{0, 2});
  CHECK(state[2].first == "exp_avg.1");
  CHECK(state[2].second.dtype() == float64);
}

}  // namespace optimizer_options_test
