// Optimisers whose rules read a whole matrix, against hand computations in double precision;
// gradient norms given from outside.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>

#include "gradus/core/core.h"
#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"

namespace tensor_optimizer_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

/// p -= lr (O(u) + decay p), u = beta u + g, where O(u) approximates the orthogonal matrix closest
/// to u by Newton-Schulz iterations X = 1.5 X - 0.5 X X^T X from X = u / |u|. Jordan et al. 2024
/// (Muon).
struct Orthogonal : optim::TensorOptimizer {
  Orthogonal(optim::ParameterGroups params, double lr, double beta, double decay)
      : TensorOptimizer("Orthogonal", std::move(params), lr, decay, {"u"}, [beta](auto& p) {
          p.state[0] = beta * p.state[0] + p.grad;
          Tensor x = p.state[0] / sqrt(sum(p.state[0] * p.state[0]));
          for (int i = 0; i < 5; ++i) x = 1.5 * x - 0.5 * matmul(matmul(x, x.mT()), x);
          p.param -= p.lr * (x + p.weight_decay * p.param);
        }) {}
};

using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(const Tensor& x) {
  Matrix m;
  for (int64_t i = 0; i < x.size(0); ++i) m.push_back(x[i].to_vector<double>());
  return m;
}

/// The steps of Orthogonal on a matrix, in scalar loops.
struct ByHand {
  Matrix p, u;
  double lr, beta, decay;

  void step(const Matrix& g, double grad_scale) {
    double squares = 0;
    for (size_t i = 0; i < p.size(); ++i)
      for (size_t j = 0; j < p[i].size(); ++j) {
        u[i][j] = beta * u[i][j] + grad_scale * g[i][j];
        squares += u[i][j] * u[i][j];
      }
    Matrix x = u;
    for (auto& row : x)
      for (double& value : row) value /= std::sqrt(squares);
    for (int k = 0; k < 5; ++k) x = iterate(x);
    for (size_t i = 0; i < p.size(); ++i)
      for (size_t j = 0; j < p[i].size(); ++j) p[i][j] -= lr * (x[i][j] + decay * p[i][j]);
  }
  static Matrix iterate(const Matrix& x) {
    Matrix y = x;
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[i].size(); ++j) {
        double cubic = 0;  // (X X^T X)_ij
        for (size_t k = 0; k < x.size(); ++k)
          for (size_t l = 0; l < x[i].size(); ++l) cubic += x[i][l] * x[k][l] * x[k][j];
        y[i][j] = 1.5 * x[i][j] - 0.5 * cubic;
      }
    return y;
  }
};

double distance(const Tensor& x, const Matrix& expected) {
  const Matrix m = matrix_of(x);
  double worst = 0;
  for (size_t i = 0; i < m.size(); ++i)
    for (size_t j = 0; j < m[i].size(); ++j)
      worst = std::max(worst, std::abs(m[i][j] - expected[i][j]));
  return worst;
}

/// p -= lr g / sqrt(r), r += the mean of g^2 over each row: a state smaller than its parameter.
struct Rows : optim::TensorOptimizer {
  Rows(optim::ParameterGroups params, double lr)
      : TensorOptimizer("Rows", std::move(params), lr, 0,
                        {{"rows",
                          [](const Tensor& p) {
                            return ones({p.size(0), 1}, p.dtype());
                          }}},
                        [](auto& p) {
                          p.state[0] += mean(p.grad * p.grad, 1, keepdim);
                          p.param -= p.lr * p.grad / sqrt(p.state[0]);
                        }) {}
};

/// An optimiser with any rule.
struct Free : optim::TensorOptimizer {
  Free(optim::ParameterGroups params, std::vector<optim::State> states, Rule rule)
      : TensorOptimizer("Free", std::move(params), 1, 0, std::move(states), std::move(rule)) {}
};

struct WrongState : optim::ElementwiseOptimizer {
  explicit WrongState(optim::ParameterGroups params)
      : ElementwiseOptimizer("WrongState", std::move(params), 1, 0,
                             {{"u", [](const Tensor&) { return zeros({1}); }}},
                             [](const auto&) {}) {}
};

}  // namespace

TEST_CASE("a whole-matrix optimiser follows its formula, clipped and not", "[optim]") {
  for (const double max_norm : {0.0, 0.7}) {
    manual_seed(5);
    const Tensor w = randn({4, 3}, float64).requires_grad_(), v = randn({2, 5}).requires_grad_();
    Orthogonal optimiser({{.params = {w}}, {.params = {v}, .lr_scale = 0.5, .weight_decay = 0.3}},
                         0.1, 0.9, 0.2);
    ByHand of_w{matrix_of(w), Matrix(4, std::vector<double>(3)), 0.1, 0.9, 0.2};
    ByHand of_v{matrix_of(v), Matrix(2, std::vector<double>(5)), 0.05, 0.9, 0.3};
    for (int step = 0; step < 4; ++step) {
      w.set_grad(randn({4, 3}, float64)), v.set_grad(randn({2, 5}));
      const Tensor before = w.grad().clone();
      const double norm = optim::grad_norm({w, v});
      const double scale = max_norm > 0 ? max_norm / (norm + 1e-6) : 1;
      if (max_norm > 0)
        CHECK(optimiser.step({.max_grad_norm = max_norm}) == norm);
      else
        CHECK(optimiser.step() == 0);
      CHECK(golden::same(w.grad(), before));
      of_w.step(matrix_of(w.grad()), scale), of_v.step(matrix_of(v.grad()), scale);
    }
    CHECK(distance(w, of_w.p) < 1e-13);
    CHECK(distance(v, of_v.p) < 1e-5);
    CHECK(distance(optimiser.state_dict()[1].second, of_w.u) < 1e-13);
  }
}

TEST_CASE("a whole-matrix optimiser resumes to the same bits", "[optim]") {
  manual_seed(6);
  const Tensor start = randn({3, 3}), gradients = randn({6, 3, 3});
  const auto train = [&](optim::Optimizer& optimiser, const Tensor& p, int first, int last) {
    for (int i = first; i < last; ++i) p.set_grad(gradients[i]), optimiser.step();
  };
  using Make = std::function<std::unique_ptr<optim::Optimizer>(const Tensor&)>;
  const auto resumed_state = [&](const Make& make) {
    const Tensor p = start.clone().requires_grad_();
    const auto first = make(p);
    train(*first, p, 0, 3);
    const Tensor q = p.detach().clone().requires_grad_();
    const auto second = make(q);
    second->load_state_dict(first->state_dict());
    train(*first, p, 3, 6), train(*second, q, 3, 6);
    CHECK(golden::same(p, q));
    const NamedTensors state = second->state_dict();
    CHECK(state[0].second.to_vector<int>() == std::vector<int>{6});
    return state[1];
  };
  const auto orthogonal = [](const Tensor& p) {
    return std::make_unique<Orthogonal>(std::vector<Tensor>{p}, 0.1, 0.9, 0.1);
  };
  CHECK(resumed_state(orthogonal).first == "u.0");
  const auto [name, rows] = resumed_state(
      [](const Tensor& p) { return std::make_unique<Rows>(std::vector<Tensor>{p}, 0.1); });
  CHECK(name == "rows.0");
  CHECK(rows.shape() == Shape{3, 1});
  Rows other({start.clone().requires_grad_()}, 0.1);
  CHECK_THROWS_WITH(other.load_state_dict({{"step", zeros({1}, int64)}, {"rows.0", zeros({3, 3})}}),
                    Contains("Rows: ") && Contains("mismatched: rows.0"));
}

TEST_CASE("a whole-matrix optimiser leaves frozen parameters alone", "[optim]") {
  const Tensor w = eye(2).requires_grad_(), frozen = ones({2, 2}), idle = eye(2).requires_grad_();
  Orthogonal optimiser({w, frozen, idle}, 0.5, 0, 0);
  w.set_grad(eye(2)), frozen.set_grad(eye(2));
  optimiser.step();
  CHECK(frozen.to_vector<float>() == std::vector<float>{1, 1, 1, 1});
  CHECK(golden::same(idle, eye(2)));
  CHECK(w[0][0].item() < 0.6);
  CHECK(optimiser.state_dict()[0].second.to_vector<int>() == std::vector<int>{1, 0, 0});
  frozen.requires_grad_();
  optimiser.step();
  CHECK(frozen[0][0].item() < 0.6);
  CHECK(optimiser.state_dict()[0].second.to_vector<int>() == std::vector<int>{2, 1, 0});
}

TEST_CASE("the gradient norm may be given from outside", "[optim]") {
  const auto sharded = [](auto make) {
    manual_seed(7);
    const Tensor a = randn({3, 2}), b = randn({2, 2}), ga = randn({3, 2}), gb = randn({2, 2});
    const auto with_grad = [](const Tensor& x, const Tensor& g) {
      const Tensor p = x.clone().requires_grad_();
      p.set_grad(g);
      return p;
    };
    const Tensor p = with_grad(a, ga), q = with_grad(b, gb);
    const auto both = make({p, q});
    const double norm = both->step({.max_grad_norm = 0.5});
    CHECK(norm > 0.5);
    const Tensor r = with_grad(a, ga), s = with_grad(b, gb);
    CHECK(make({r})->step({.max_grad_norm = 0.5, .grad_norm = norm}) == norm);
    CHECK(make({s})->step({.max_grad_norm = 0.5, .grad_norm = norm}) == norm);
    CHECK(golden::same(p, r));
    CHECK(golden::same(q, s));
    CHECK(both->step({.grad_norm = 3}) == 3);  // nothing clipped
    CHECK_THROWS_WITH(both->step({.grad_norm = -1}),
                      Contains(": expected a gradient norm >= 0, got -1"));
    CHECK_THROWS_WITH(both->step({.grad_norm = NAN}),
                      Contains(": expected a gradient norm >= 0, got nan"));
  };
  using Parameters = std::vector<Tensor>;
  sharded([](const Parameters& p) {
    return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 1, .momentum = 0.5});
  });
  // Rows' state starts at 1, so clipping changes its steps.
  sharded([](const Parameters& p) { return std::make_unique<Rows>(p, 0.1); });
  const Tensor w = zeros({2}).requires_grad_();
  w.set_grad(ones({2}));
  optim::SGD({w}, {.lr = 1}).step({.max_grad_norm = 1, .grad_norm = 4});
  CHECK(w[0].item() == Approx(-0.25));
}

TEST_CASE("a whole-matrix rule may assign, and does not change shared gradients", "[optim]") {
  const Tensor p = tensor({1, 2}).requires_grad_(), q = tensor({3, 4}).requires_grad_();
  sum(p + q).backward();  // gives both the same gradient
  Free shared({p, q}, {}, [](auto& x) {
    x.grad += 1;
    x.param -= x.grad;
  });
  shared.step();
  CHECK(p.to_vector<float>() == std::vector<float>{-1, 0});
  CHECK(q.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(q.grad().to_vector<float>() == std::vector<float>{1, 1});

  // A rule may assign one state to another: the values before the rule count.
  Free moves({p}, {"before", "earlier"}, [](auto& x) {
    x.state[1] = x.state[0];
    x.state[0] = x.param;
    x.param = x.param + 10;
  });
  moves.step(), moves.step();
  CHECK(p.to_vector<float>() == std::vector<float>{19, 20});
  CHECK(moves.state_dict()[1].second.to_vector<float>() == std::vector<float>{9, 10});
  CHECK(moves.state_dict()[2].second.to_vector<float>() == std::vector<float>{-1, 0});

  // A state that starts as the parameter is a copy of it.
  Free anchored({p}, {{"start", [](const Tensor& x) { return x; }}}, [](auto& x) { x.param += 1; });
  anchored.step();
  CHECK(anchored.state_dict()[1].second.to_vector<float>() == std::vector<float>{19, 20});
  CHECK(p.to_vector<float>() == std::vector<float>{20, 21});
}

TEST_CASE("optimisers refuse tensors of another shape", "[optim]") {
  const Tensor p = tensor({1, 2}).requires_grad_();
  p.set_grad(ones({2}));
  Free wrong({p}, {"u"}, [](auto& x) { x.state[0] = sum(x.grad); });
  CHECK_THROWS_WITH(wrong.step(), Contains("Free: ") && Contains("u (expected float32 (2,), got"));
  Free lost({p}, {}, [](auto& x) { x.param = Tensor(); });
  CHECK_THROWS_WITH(lost.step(), Contains("Free: ") && Contains("got an undefined tensor"));
  CHECK_THROWS_WITH(Free({p}, {{"u", [](const Tensor&) { return Tensor(); }}}, [](auto&) {}),
                    "Free: the initial u is undefined");
  CHECK_THROWS_WITH(WrongState({p}),
                    "WrongState: expected a state of float32 (2,), got float32 (1,)");
  // A frozen parameter's state is made at its first update: nothing has changed by then.
  const Tensor other = ones({1}).requires_grad_();
  p.requires_grad_(false);
  WrongState late({other, p});
  p.requires_grad_(true);
  p.set_grad(ones({2})), other.set_grad(ones({1}));
  const Tensor loss = sum(p * p);
  CHECK_THROWS_WITH(late.step(), Contains("expected a state of float32 (2,)"));
  loss.backward();  // p is as it was
  CHECK(p.to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("parameters do not share an initial state that is one tensor", "[optim]") {
  const Tensor p = zeros({2}).requires_grad_(), q = zeros({2}).requires_grad_();
  const Tensor zero = zeros({1});
  Free counting({p, q}, {{"n", [zero](const Tensor&) { return zero; }}}, [](auto& x) {
    x.state[0] += 1;
    x.param -= x.state[0];
  });
  p.set_grad(ones({2})), q.set_grad(ones({2}));
  counting.step();
  CHECK(p.to_vector<int>() == std::vector<int>{-1, -1});
  CHECK(q.to_vector<int>() == std::vector<int>{-1, -1});
  CHECK(zero.item() == 0);
}

TEST_CASE("names and numbers of states", "[optim]") {
  const Tensor p = zeros({2}).requires_grad_();
  p.set_grad(ones({2}));
  Free named({p}, {"param"}, [](auto& x) {
    x.state[0] = x.state[0] + 5;
    x.param = x.param - x.grad;
  });
  named.step();
  CHECK(p.to_vector<int>() == std::vector<int>{-1, -1});
  CHECK(named.state_dict()[1].second.to_vector<int>() == std::vector<int>{5, 5});
  CHECK_THROWS_WITH(Free({p}, {"u", "v", "u"}, [](auto&) {}), "Free: two states are called u");
  Free clears({p}, {"u"}, [](auto& x) { x.state.clear(); });
  CHECK_THROWS_WITH(clears.step(), "Free: expected 1 states after the rule, got 0");
}

}  // namespace tensor_optimizer_test
