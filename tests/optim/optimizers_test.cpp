#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "gradus/core/core.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"

namespace optimizers_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

using Factory = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

template <class Optimiser, class Options>
Factory made(const Options& options) {
  return [=](const std::vector<Tensor>& p) { return std::make_unique<Optimiser>(p, options); };
}

const std::vector<std::pair<std::string, Factory>>& optimisers() {
  static const std::vector<std::pair<std::string, Factory>> all = {
      {"sgd", made<optim::SGD>(optim::SGDOptions{.lr = 0.1})},
      {"sgd_decay", made<optim::SGD>(optim::SGDOptions{.lr = 0.1, .weight_decay = 0.1})},
      {"sgd_momentum",
       made<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1})},
      {"sgd_nesterov",
       made<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .nesterov = true})},
      {"adam", made<optim::Adam>(optim::AdamOptions{.lr = 0.02})},
      {"adam_decay",
       made<optim::Adam>(optim::AdamOptions{
           .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1})},
      {"adamw", made<optim::AdamW>(optim::AdamWOptions{.lr = 0.02})},
      {"adamw_options",
       made<optim::AdamW>(optim::AdamWOptions{
           .lr = 0.02, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.3})},
      {"rmsprop", made<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.02})},
      {"rmsprop_momentum", made<optim::RMSprop>(optim::RMSpropOptions{
                               .lr = 0.02, .alpha = 0.9, .eps = 1e-3, .momentum = 0.8})},
      {"rmsprop_centered", made<optim::RMSprop>(optim::RMSpropOptions{
                               .lr = 0.02, .alpha = 0.8, .centered = true, .weight_decay = 0.1})},
      {"rmsprop_all",
       made<optim::RMSprop>(optim::RMSpropOptions{
           .lr = 0.02, .alpha = 0.9, .momentum = 0.5, .centered = true, .weight_decay = 0.2})},
      {"adagrad", made<optim::Adagrad>(optim::AdagradOptions{.lr = 0.1})},
      {"adagrad_options",
       made<optim::Adagrad>(optim::AdagradOptions{
           .lr = 0.1, .lr_decay = 0.3, .initial_sum = 0.5, .eps = 1e-3, .weight_decay = 0.2})},
      {"lion", made<optim::Lion>(optim::LionOptions{.lr = 0.02})},
      {"lion_options", made<optim::Lion>(optim::LionOptions{
                           .lr = 0.02, .beta1 = 0.6, .beta2 = 0.8, .weight_decay = 0.3})},
  };
  return all;
}

// Three parameters and their gradients in 20 steps; in every fourth step the last parameter has
// none.
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

/// Moves each element by lr against the sign of its gradient.
struct Signs : optim::ElementwiseOptimizer {
  Signs(optim::ParameterGroups params, double lr)
      : ElementwiseOptimizer("Signs", std::move(params), lr, 0, {"moves"}, [](const auto& c) {
          for (int64_t i = 0; i < c.n; ++i) {
            c.param[i] -= (c.grad[i] > 0 ? 1 : -1) * c.lr;
            ++c.state[0][i];
          }
        }) {}
};

struct Greedy : optim::ElementwiseOptimizer {
  explicit Greedy(optim::ParameterGroups params)
      : ElementwiseOptimizer("Greedy", std::move(params), 1, 0, {"a", "b", "c", "d"},
                             [](const auto&) {}) {}
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
    after.params[1].requires_grad_(false);  // frozen for now; its state is loaded too
    const auto second = make(after.params);
    second->load_state_dict(first->state_dict());
    after.params[1].requires_grad_();
    for (int64_t step = 10; step < 20; ++step) {
      through.set_grads(step), uninterrupted->step();
      after.set_grads(step), second->step();
    }
    for (size_t i = 0; i < 3; ++i) CHECK(golden::same(through.params[i], after.params[i]));
  }
}

TEST_CASE("an optimiser's state has a name per parameter", "[optim]") {
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

TEST_CASE("a state with a number of updates below 0 or above 2^53 is refused", "[optim]") {
  const Tensor p = ones({2}).requires_grad_();
  optim::Adam adam({p});
  p.set_grad(ones({2}));
  adam.step();
  const Tensor before = adam.state_dict()[1].second.clone();
  const auto load = [&](int64_t step) {
    adam.load_state_dict({{"step", tensor({step}, int64)},
                          {"exp_avg.0", full({2}, 9)},
                          {"exp_avg_sq.0", full({2}, 9)}});
  };
  const std::string error = "Adam: expected counts from 0 to 2^53 in step, got ";
  const int64_t most = int64_t{1} << 53;
  for (const int64_t step : {int64_t{-1}, most + 1, INT64_MAX})
    CHECK_THROWS_WITH(load(step), error + std::to_string(step));
  CHECK(adam.state_dict()[0].second.item<int64_t>() == 1);
  CHECK(golden::same(adam.state_dict()[1].second, before));
  CHECK_NOTHROW(load(most));
}

TEST_CASE("a state that is refused allocates nothing", "[optim]") {
  nn::Linear layer(2, 2);
  layer.weight.requires_grad_(false);
  optim::AdamW adam(layer.parameters());
  CHECK_THROWS_WITH(adam.load_state_dict({}), Contains("missing: step"));
  layer.to(float64);  // allowed, as weight has no state yet
  layer.weight.requires_grad_().set_grad(ones({2, 2}, float64));
  adam.step();
  CHECK(adam.state_dict()[1].second.dtype() == float64);
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
                    "AdamW: parameter 1 of shape (2, 2): expected float32, the dtype of its "
                    "state, got float64");
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
                    Contains("expected a maximum gradient norm > 0, got 0"));

  const Tensor shared = tensor({3, 4});  // as a sum gives both terms the same gradient
  const Tensor c = zeros({2}).requires_grad_(), d = zeros({2}).requires_grad_();
  c.set_grad(shared), d.set_grad(shared);
  const double norm_before = optim::clip_grad_norm({c, d}, 1);
  CHECK(optim::grad_norm({c, d}) == Approx(1).epsilon(1e-5));
  CHECK(norm_before == Approx(5 * std::sqrt(2.0)));
}

TEST_CASE("clipping by a norm that is not finite affects every gradient", "[optim]") {
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
  CHECK_THROWS_WITH(optim::AdamW({w}, {.eps = -1}), Contains("AdamW: expected a finite eps >= 0"));
  CHECK_THROWS_WITH(optim::AdamW({w}, {.weight_decay = -1}),
                    Contains("weight_decay and lr_scale >= 0"));
  CHECK_THROWS_WITH(optim::AdamW({w}).step({.max_grad_norm = -1}),
                    Contains("maximum gradient norm > 0"));
  CHECK_THROWS_WITH(optim::AdamW({w}).set_lr(std::nan("")), Contains("finite learning rate"));
}

TEST_CASE("a user's optimiser is its options and one rule", "[optim]") {
  const Tensor p = tensor({1, 2}).requires_grad_(), q = tensor({3}, float64).requires_grad_();
  Signs signs({p, q}, 0.5);
  p.set_grad(tensor({10, -10})), q.set_grad(tensor({1}, float64));
  signs.step(), signs.step();
  CHECK(p.to_vector<float>() == std::vector<float>{0, 3});
  CHECK(q.item() == 2);
  CHECK(signs.state_dict()[1].first == "moves.0");
  CHECK(signs.state_dict()[1].second.to_vector<int>() == std::vector<int>{2, 2});
  CHECK_THROWS_WITH(Greedy({p}), "Greedy: expected at most 3 states, got 4");
}

TEST_CASE("a gradient may share the memory of a parameter, also on several threads", "[optim]") {
  const auto check_with = [](const auto& make) {
    manual_seed(4);
    const Tensor start = randn({2, 200, 200});  // several chunks
    const auto after = [&](bool shared) {
      const Tensor p = start[0].clone().requires_grad_(), q = start[1].clone().requires_grad_();
      const auto optimiser = make(p, q);
      for (int step = 0; step < 3; ++step) {
        p.set_grad(shared ? q.detach() : q.detach().clone());
        q.set_grad(shared ? p.detach() : p.detach().clone());
        optimiser->step();
      }
      return stack({p.detach(), q.detach()});
    };
    CHECK(golden::same(after(true), after(false)));
  };
  const int before = num_threads();
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    check_with([](const Tensor& p, const Tensor& q) {
      return std::make_unique<optim::SGD>(std::vector<Tensor>{p, q}, optim::SGDOptions{.lr = 0.5});
    });
    check_with([](const Tensor& p, const Tensor& q) {
      return std::make_unique<optim::Muon>(std::vector<StackedMatrices>{{p}, {q}});
    });
  }
  set_num_threads(before);
}

TEST_CASE("backward through an optimiser's state changed by step is an error", "[optim]") {
  const Tensor w = ones({2}).requires_grad_(), x = ones({2}).requires_grad_();
  optim::SGD sgd({w}, {.lr = 0.1, .momentum = 0.9});
  const Tensor loss = sum(x * sgd.state_dict()[1].second);
  w.set_grad(ones({2}));
  sgd.step();
  CHECK_THROWS_WITH(loss.backward(), Contains("changed in place"));
}

}  // namespace optimizers_test
