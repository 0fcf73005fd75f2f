// Muon, the Newton-Schulz iteration, and several optimisers as one.

#include "gradus/optim/muon.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "gradus/core/core.h"
#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"

namespace muon_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

constexpr size_t count = 9;  // parameters of the golden file
const std::vector<std::vector<int64_t>> rows{{}, {}, {2, 3, 4}, {}, {}, {}, {}, {}, {}};
const std::vector<std::vector<int64_t>> heads{{}, {}, {1, 3, 2}, {}, {}, {}, {}, {}, {}};

/// The parameters and gradients of the golden file.
struct Problem {
  std::vector<Tensor> params, grads;
  explicit Problem(Dtype dtype) {
    const golden::File file("muon");
    for (size_t i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      params.push_back(file.get("start." + n, dtype).clone().requires_grad_());
      grads.push_back(file.get("grads." + n, dtype));
    }
  }
  std::vector<StackedMatrices> matrices() const {
    std::vector<StackedMatrices> out;
    for (size_t i = 0; i < count; ++i) out.push_back({params[i], rows[i], heads[i]});
    return out;
  }
  void run(optim::Optimizer& optimizer, int64_t first, int64_t last,
           const optim::StepOptions& options = {}) const {
    for (int64_t step = first; step < last; ++step) {
      for (size_t i = 0; i < count; ++i) params[i].set_grad(grads[i][step]);
      optimizer.step(options);
    }
  }
  int64_t steps() const { return grads[0].size(0); }
};

double largest_difference(const Tensor& a, const Tensor& b) {
  const NoGrad no_grad;
  return max(abs(a.to(float64) - b.to(float64))).item();
}

Tensor random_matrix(const Shape& shape, uint64_t seed, Dtype dtype = float64) {
  manual_seed(seed);
  return randn(shape, dtype);
}

bool all_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!golden::same(a[i], b[i])) return false;
  return a.size() == b.size();
}

struct Threads {
  int before = num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};

}  // namespace

TEST_CASE("Muon's steps equal a reference in float64", "[optim][muon][golden]") {
  const golden::File file("muon");
  const std::vector<std::pair<std::string, optim::MuonOptions>> cases{
      {"default", {}},
      {"plain", {.momentum = 0.7, .nesterov = false, .steps = 3}},
      {"decay", {.lr = 0.1, .weight_decay = 0.5}},
      {"cautious", {.lr = 0.1, .weight_decay = 0.5, .cautious = true}},
      {"clipped", {}},
      {"polar_express", {.steps = 4, .polar_express = true}},
      {"polar_express_7", {.steps = 7, .polar_express = true}},
      {"per_head", {.steps = 3, .polar_express = true, .per_head = true}}};
  for (const Dtype dtype : {float64, float32})
    for (const auto& [name, options] : cases) {
      CAPTURE(dtype, name);
      // Terms of the Polar Express's first polynomial are up to 80 times its value.
      const double rounding = options.polar_express ? 2e-6 : 1e-6;
      const Problem problem(dtype);
      optim::Muon muon(problem.matrices(), options);
      optim::StepOptions step;
      if (name == "clipped") step.max_grad_norm = 2;
      problem.run(muon, 0, problem.steps(), step);
      for (size_t i = 0; i < count; ++i) {
        CAPTURE(i);
        CHECK(largest_difference(problem.params[i], file.get(name + '.' + std::to_string(i))) <
              (dtype == float64 ? 1e-12 : rounding));
      }
    }
}

TEST_CASE("newton_schulz: square, tall, wide and stacked matrices", "[optim][muon][golden]") {
  const golden::File file("muon");
  for (const size_t i : {0, 1, 2, 4, 5, 6, 7, 8}) {
    CAPTURE(i);
    const Tensor x = file.get("start." + std::to_string(i));
    const Tensor expected = file.get("newton_schulz." + std::to_string(i));
    CHECK(largest_difference(optim::newton_schulz(x), expected) < 1e-12);
    CHECK(largest_difference(optim::newton_schulz(x.to(float32)), expected) < 1e-5);
    const Tensor plain = optim::newton_schulz(x.to(float32));
    const Bfloat16Products products;  // makes no difference
    CHECK(golden::same(optim::newton_schulz(x.to(float32)), plain));
    CHECK(golden::same(optim::newton_schulz(stack({x, x * 3.0}))[0], optim::newton_schulz(x)));
    const Tensor transposed = x.transpose(0, 1);  // not contiguous
    CHECK(largest_difference(optim::newton_schulz(transposed), expected.transpose(0, 1)) < 1e-12);
    CHECK(largest_difference(optim::newton_schulz(transposed.to(float32)),
                             expected.transpose(0, 1)) < 1e-5);
  }
  CHECK(optim::newton_schulz(zeros({0, 3, 4})).shape() == Shape{0, 3, 4});
  CHECK(optim::newton_schulz(zeros({3, 0})).shape() == Shape{3, 0});
}

TEST_CASE("newton_schulz: each number of steps, of stacked matrices, by the formula",
          "[optim][muon]") {
  const auto by_formula = [](const Tensor& matrix, int64_t steps) {
    const bool tall = matrix.size(0) > matrix.size(1);
    Tensor x = tall ? matrix.mT() : matrix;
    x = x / (norm(x) + 1e-7);
    for (int64_t i = 0; i < steps; ++i) {
      const Tensor a = matmul(x, x.mT());
      x = 3.4445 * x + matmul(-4.7750 * a + 2.0315 * matmul(a, a), x);
    }
    return tall ? x.mT() : x;
  };
  for (const Shape& shape : {Shape{2, 4, 6}, Shape{3, 6, 4}, Shape{2, 3, 12}})
    for (const int64_t steps : {1, 2, 3, 7}) {
      CAPTURE(shape, steps);
      const Tensor g = random_matrix(shape, 6), y = optim::newton_schulz(g, steps);
      for (int64_t i = 0; i < shape[0]; ++i)
        CHECK(largest_difference(y[i], by_formula(g[i], steps)) < 1e-9);
    }
}

TEST_CASE("newton_schulz brings singular values near 1", "[optim][muon]") {
  // Singular values 1 and 0.01 of a rotation's product with diag: 5 steps map both into [0.68,
  // 1.14].
  const double c = std::cos(0.3), s = std::sin(0.3);
  const Tensor x = from_data(std::vector<double>{c, -0.01 * s, s, 0.01 * c}, {2, 2});
  const Tensor y = optim::newton_schulz(x), gram = matmul(y.transpose(0, 1), y);
  CHECK(std::abs(gram[0][1].item()) < 1e-9);
  for (const int64_t i : {0, 1}) {
    CHECK(std::sqrt(gram[i][i].item()) > 0.65);
    CHECK(std::sqrt(gram[i][i].item()) < 1.2);
  }
}

TEST_CASE("newton_schulz: zeros, rank one, and the range of magnitudes", "[optim][muon]") {
  const Tensor zero = zeros({5, 9}, float32);
  CHECK(golden::same(optim::newton_schulz(zero), zero));
  const Tensor column = random_matrix({20, 1}, 1), row = random_matrix({1, 50}, 2);
  const Tensor one = optim::newton_schulz(matmul(column, row));
  const double size = norm(one).item();  // the one singular value
  CHECK(size > 0.65);
  CHECK(size < 1.2);
  // The result does not depend on the scale, up to rounding; the largest squares overflow.
  const Tensor x = random_matrix({6, 10}, 3), y = optim::newton_schulz(x);
  for (const double scale : {1e-3, 1e9, 1e11, 1e200, 1e300}) {
    CAPTURE(scale);
    CHECK(largest_difference(optim::newton_schulz(x * scale), y) < 1e-4);
  }
  const Tensor f = x.to(float32), g = optim::newton_schulz(f);
  CHECK(largest_difference(optim::newton_schulz(f * 1e38), g) < 1e-4);
  CHECK(largest_difference(optim::newton_schulz(f * 1e-30), zero.slice(1, 0, 9)[0][0]) < 1e-6);
}

TEST_CASE("Muon with products in bfloat16 stays near the exact iteration", "[optim][muon]") {
  // The update of a matrix that starts at 0, without momentum.
  const auto update = [](const Tensor& g, int64_t steps, bool polar_express, bool bfloat16) {
    const Tensor p = zeros(g.shape(), g.dtype()).requires_grad_();
    p.set_grad(g);
    optim::Muon({{p}}, {.lr = 1,
                        .momentum = 0,
                        .steps = steps,
                        .polar_express = polar_express,
                        .bfloat16 = bfloat16})
        .step();
    return p.detach();
  };
  // Square, wide enough for the Gram matrix, tall; with sizes that no block divides. An emulation
  // in NumPy is off by up to 0.091 after 5 steps and 0.037 after more. Three steps of the Polar
  // Express in PyTorch's bfloat16 are off by 0.16 to 0.2.
  for (const Shape& shape : {Shape{64, 64}, Shape{40, 70}, Shape{61, 200}, Shape{150, 33}}) {
    // Four directions hold nearly all of the gradient, as in training.
    const Tensor few = matmul(random_matrix({shape[0], 4}, 1), random_matrix({4, shape[1]}, 2));
    const Tensor all = few + random_matrix(shape, 3) * 0.02;
    for (const auto& [steps, polar, tolerance] : {std::tuple{5, false, 0.1},
                                                  {6, false, 0.05},
                                                  {10, false, 0.05},
                                                  {3, true, 0.25},
                                                  {4, true, 0.1},
                                                  {8, true, 0.05}}) {
      CAPTURE(shape, steps, polar);
      const Tensor exact = update(all, steps, polar, false), g = all.to(float32);
      const Tensor rounded = update(g, steps, polar, true);
      CHECK(norm(rounded.to(float64) - exact).item() < tolerance * norm(exact).item());
      CHECK(golden::same(update(g, steps, polar, false), rounded) == !has_bfloat16_products());
      CHECK(golden::same(update(all, steps, polar, true), exact));  // float64 is never rounded
    }
  }
}

TEST_CASE("Muon gives the same bits on 1, 2 and 3 threads", "[optim][muon][threads]") {
  // Few and many matrices, on both sides of the number of threads, larger than a chunk, square,
  // tall and wide.
  for (const auto& [matrices, polar, bfloat16] : {std::tuple{1, false, false},
                                                  {2, false, false},
                                                  {7, false, false},
                                                  {1, true, true},
                                                  {2, true, true},
                                                  {7, true, true},
                                                  {1, true, false},
                                                  {2, false, true}}) {
    std::vector<std::vector<Tensor>> results;
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      std::vector<StackedMatrices> params;
      for (int i = 0; i < matrices; ++i) {
        const Shape shape{150 - 53 * ((matrices + i) % 3), 130 + 40 * i};
        params.push_back({random_matrix(shape, 7, float32).requires_grad_()});
      }
      params[0].rows = {20, params[0].param.size(0) - 20}, params[0].heads = {4, 1};
      if (matrices == 1) params[0] = {random_matrix({400, 150}, 7, float32).requires_grad_()};
      optim::Muon muon(params, {.steps = polar ? 3 : 5,
                                .polar_express = polar,
                                .per_head = polar,
                                .bfloat16 = bfloat16});
      std::vector<Tensor> out;
      for (int step = 0; step < 2; ++step) {
        for (const auto& p : params) p.param.set_grad(random_matrix(p.param.shape(), 9, float32));
        muon.step();
      }
      for (const auto& p : params) out.push_back(p.param.detach().clone());
      results.push_back(out);
    }
    CAPTURE(matrices, polar, bfloat16);
    CHECK(all_same(results[0], results[1]));
    CHECK(all_same(results[0], results[2]));
  }
}

TEST_CASE("newton_schulz: a single row, and float64, on 1, 2 and 3 threads",
          "[optim][muon][threads]") {
  const auto run = [](const Shape& shape, Dtype dtype, int64_t steps, int threads) {
    const Threads scope(threads);
    const Tensor p = zeros(shape, dtype).requires_grad_();
    p.set_grad(random_matrix(shape, 5, dtype));
    optim::Muon({{p}}, {.lr = 1, .steps = steps, .bfloat16 = true}).step();
    return p.detach();
  };
  for (const auto& [shape, dtype, steps] : {std::tuple{Shape{1, 65}, float32, 6},
                                            {Shape{65, 1}, float32, 6},
                                            {Shape{70, 97}, float64, 5},
                                            {Shape{33, 300}, float64, 5}})
    for (const int threads : {2, 3})
      CHECK(golden::same(run(shape, dtype, steps, threads), run(shape, dtype, steps, 1)));
}

TEST_CASE("newton_schulz: many steps on a matrix of low rank stay finite", "[optim][muon]") {
  for (const bool polar_express : {false, true})
    for (const int64_t steps : {8, 12, 100})
      for (const Dtype dtype : {float32, float64}) {
        CAPTURE(polar_express, steps, dtype);
        const Tensor low = matmul(random_matrix({32, 4}, 1), random_matrix({4, 128}, 2));
        const Tensor p = zeros({32, 128}, dtype).requires_grad_();
        p.set_grad(low.to(dtype));
        optim::Muon({{p}}, {.lr = 1, .steps = steps, .polar_express = polar_express}).step();
        // Four singular values are between 0.65 and 1.2. 100 steps also bring there what rounding
        // left in the other 28 directions.
        const double squares = std::pow(norm(p.detach()).item(), 2);
        CHECK(squares > 4 * 0.65 * 0.65);
        CHECK(squares < (steps == 100 ? 32 : 4) * 1.2 * 1.2);
      }
}

TEST_CASE("Muon refuses what is no matrix, and gradients that are not finite", "[optim][muon]") {
  const Tensor vector = ones({4}).requires_grad_(), matrix = ones({4, 3}).requires_grad_();
  CHECK_THROWS_WITH(optim::Muon({{vector}}),
                    Contains("parameter 0 of shape (4,)") && Contains("at least 2 axes"));
  CHECK_THROWS_WITH(optim::Muon({{matrix, {1, 2}}}),
                    Contains("shape (4, 3)") && Contains("3 rows together"));
  CHECK_THROWS_WITH(optim::Muon({{matrix, {5, -1}}}), Contains("5 of its rows"));
  CHECK_THROWS_WITH(optim::Muon({{matrix, {4, 0}}}), Contains("0 of its rows"));
  CHECK_THROWS_WITH(optim::Muon({{matrix, {1, 3}, {1}}}), Contains("heads are given for 1 matr"));
  CHECK_THROWS_WITH(optim::Muon({{matrix, {1, 3}, {1, 2}}}),
                    Contains("3 rows cannot have 2 heads"));
  CHECK_THROWS_WITH(optim::Muon({{matrix, {1, 3}, {0, 3}}}), Contains("cannot have 0 heads"));
  CHECK_THROWS_WITH(optim::Muon({{matrix}}, {.momentum = 1}), Contains("momentum < 1"));
  CHECK_THROWS_WITH(optim::Muon({{matrix}}, {.steps = 0}), Contains("1 to 100 steps"));
  CHECK_THROWS_WITH(optim::Muon({{matrix}, {matrix}}), Contains("listed twice"));
  CHECK_THROWS_WITH(optim::newton_schulz(vector), Contains("expected matrices"));
  CHECK_THROWS_WITH(optim::newton_schulz(ones({2, 2}, int64)), Contains("expected matrices"));
  CHECK_THROWS_WITH(optim::newton_schulz(ones({2, 2}), 0), Contains("1 to 100 steps"));

  const Tensor other = ones({2, 2}).requires_grad_();
  optim::Muon muon({{other}, {matrix}});
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    other.set_grad(ones({2, 2}));
    Tensor grad = ones({4, 3});
    grad.slice(0, 3, 4).fill_(bad);
    matrix.set_grad(grad);
    CHECK_THROWS_WITH(muon.step(),
                      Contains("parameter 1 of shape (4, 3)") && Contains("NaN or an infinity"));
    CHECK(golden::same(other.detach(), ones({2, 2})));  // nothing has changed
    CHECK(muon.state_dict()[0].second.to_vector<int64_t>() == std::vector<int64_t>{0, 0});
  }
  matrix.set_grad({});  // a parameter without a gradient stays as it is
  muon.step();
  CHECK(muon.state_dict()[0].second.to_vector<int64_t>() == std::vector<int64_t>{1, 0});
  CHECK(golden::same(matrix.detach(), ones({4, 3})));
}

TEST_CASE("Muon: the Polar Express's steps do not depend on the gradient's scale",
          "[optim][muon]") {
  const auto update = [](const Tensor& g) {
    const Tensor p = zeros(g.shape(), g.dtype()).requires_grad_();
    p.set_grad(g);
    optim::Muon({{p}}, {.lr = 1, .momentum = 0, .steps = 3, .polar_express = true}).step();
    return p.detach();
  };
  for (const Shape& shape : {Shape{7, 9}, Shape{4, 20}, Shape{20, 3}}) {
    const Tensor x = random_matrix(shape, 3), y = update(x);
    for (const double scale : {0.1, 1e9, 1e11, 1e150, 1e300}) {
      CAPTURE(shape, scale);
      CHECK(largest_difference(update(x * scale), y) < 1e-3);
    }
    CHECK(largest_difference(update(x.to(float32) * 1e37), y) < 1e-3);
    CHECK(golden::same(update(x * 0.0), zeros(shape, float64)));
    // Below 1e-7, which is added to the norm, the update fades, also where x itself is multiplied.
    const Tensor unit = x / norm(x);
    const double above = norm(update(unit * 1.1e-10)).item();
    const double below = norm(update(unit * 0.9e-10)).item();
    CHECK(above < 0.5);
    CHECK(below == Approx(above * 0.9 / 1.1).epsilon(0.01));
    CHECK(norm(update(unit * 1e-20)).item() < 1e-10);
  }
}

TEST_CASE("Muon: cautious decay spares an element that the update does not move", "[optim][muon]") {
  for (const bool cautious : {true, false}) {
    const Tensor p = tensor({{1, -2}, {3, 4}}, float64).requires_grad_();
    const Tensor before = p.detach().clone();
    optim::Muon muon({{p}}, {.lr = 0.1, .weight_decay = 0.5, .cautious = cautious});
    p.set_grad(zeros({2, 2}, float64));
    muon.step();
    CHECK(largest_difference(p, before * (cautious ? 1 : 0.95)) < 1e-15);
  }
}

TEST_CASE("Muon: weight decay follows the learning rate", "[optim][muon]") {
  const Tensor p = random_matrix({3, 2}, 4).requires_grad_(), before = p.detach().clone();
  optim::Muon muon({{p}}, {.lr = 0.1, .weight_decay = 0.5});
  muon.set_lr(0.4);
  p.set_grad(zeros({3, 2}, float64));
  muon.step();
  CHECK(largest_difference(p, before * (1 - 0.4 * 0.5)) < 1e-14);
}

// ---- several optimisers as one ----

namespace {
/// The parameters of a small model, always the same.
struct Small {
  Tensor table = random_matrix({3, 4}, 1).requires_grad_();
  Tensor hidden = random_matrix({6, 4}, 2).requires_grad_();
  Tensor bias = random_matrix({4}, 3).requires_grad_();
  std::vector<StackedMatrices> matrices() const { return {{hidden, {2, 4}, {1, 2}}}; }
  void set_grads(uint64_t seed) const {
    for (const Tensor& p : {table, hidden, bias}) p.set_grad(random_matrix(p.shape(), ++seed));
  }
};
}  // namespace

TEST_CASE("muon_and_adamw: both take their options, and AdamW decays matrices alone",
          "[optim][muon]") {
  // The defaults, and all others.
  optim::MuonOptions of_muon{.lr = 0.02, .momentum = 0.95, .nesterov = true, .steps = 5};
  optim::AdamWOptions of_adamw{
      .lr = 3e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0};
  optim::MuonAndAdamWOptions options;
  const bool all = GENERATE(false, true);
  if (all) {
    of_muon = {.lr = 0.05,
               .momentum = 0.5,
               .nesterov = false,
               .weight_decay = 0.3,
               .cautious = true,
               .steps = 3,
               .polar_express = true,
               .per_head = true};
    of_adamw = {.lr = 0.01, .beta1 = 0.5, .beta2 = 0.6, .eps = 0.1, .weight_decay = 0.2};
    options = {.muon = of_muon, .adamw = of_adamw};
  }
  const Small a, b;
  const auto both = optim::muon_and_adamw({a.table, a.hidden, a.bias}, a.matrices(), options);
  optim::Muon muon(b.matrices(), of_muon);
  optim::AdamW adamw({{.params = {b.table}}, {.params = {b.bias}, .weight_decay = 0}}, of_adamw);
  for (uint64_t step = 0; step < 3; ++step) {
    a.set_grads(10 * step), b.set_grads(10 * step);
    both->step(), muon.step(), adamw.step();
  }
  CHECK(golden::same(a.table, b.table));
  CHECK(golden::same(a.hidden, b.hidden));
  CHECK(golden::same(a.bias, b.bias));
}

namespace {
struct Pair {
  Tensor matrix = random_matrix({5, 4}, 11, float32).requires_grad_();
  Tensor vector = random_matrix({4}, 12, float32).requires_grad_();
  std::unique_ptr<optim::CombinedOptimizer> make() const {
    std::vector<std::unique_ptr<optim::Optimizer>> parts;
    parts.push_back(std::make_unique<optim::AdamW>(optim::ParameterGroups{vector},
                                                   optim::AdamWOptions{.lr = 0.01}));
    parts.push_back(std::make_unique<optim::Muon>(std::vector<StackedMatrices>{{matrix}},
                                                  optim::MuonOptions{.lr = 0.05}));
    return std::make_unique<optim::CombinedOptimizer>(std::move(parts));
  }
  void set_grads(uint64_t seed) const {
    matrix.set_grad(random_matrix({5, 4}, seed, float32));
    vector.set_grad(random_matrix({4}, seed + 100, float32));
  }
};
}  // namespace

TEST_CASE("CombinedOptimizer steps, clips and follows a schedule as one", "[optim][muon]") {
  const Pair together, apart;
  const auto both = together.make();
  CHECK(both->lr() == 0.01);
  CHECK(both->parameters().size() == 2);
  optim::AdamW adamw({apart.vector}, {.lr = 0.01});
  optim::Muon muon({{apart.matrix}}, {.lr = 0.05});
  for (uint64_t step = 0; step < 3; ++step) {
    together.set_grads(step), apart.set_grads(step);
    const double scale = step == 2 ? 0.5 : 1;
    both->set_lr(0.01 * scale);
    adamw.set_lr(0.01 * scale), muon.set_lr(0.05 * scale);
    const double norm = optim::grad_norm({apart.vector, apart.matrix});
    CHECK(both->step({.max_grad_norm = 0.7}) == norm);
    adamw.step({.max_grad_norm = 0.7, .grad_norm = norm});
    muon.step({.max_grad_norm = 0.7, .grad_norm = norm});
  }
  CHECK(golden::same(together.matrix, apart.matrix));
  CHECK(golden::same(together.vector, apart.vector));
  both->zero_grad();
  CHECK_FALSE(together.matrix.grad().defined());
}

TEST_CASE("CombinedOptimizer resumes to the same bits", "[optim][muon]") {
  const Pair through, before, after;
  const auto uninterrupted = through.make(), first = before.make(), second = after.make();
  auto run = [](const Pair& p, optim::Optimizer& o, uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; ++step) p.set_grads(step), o.step();
  };
  run(through, *uninterrupted, 0, 6);
  run(before, *first, 0, 3);
  {
    const NoGrad no_grad;
    after.matrix.copy_(before.matrix), after.vector.copy_(before.vector);
  }
  second->load_state_dict(first->state_dict());
  run(after, *second, 3, 6);
  CHECK(golden::same(through.matrix, after.matrix));
  CHECK(golden::same(through.vector, after.vector));
}

TEST_CASE("CombinedOptimizer refuses shared parameters and foreign states", "[optim][muon]") {
  const Pair pair;
  std::vector<std::unique_ptr<optim::Optimizer>> parts;
  parts.push_back(std::make_unique<optim::AdamW>(optim::ParameterGroups{pair.matrix}));
  parts.push_back(std::make_unique<optim::Muon>(std::vector<StackedMatrices>{{pair.matrix}}));
  CHECK_THROWS_WITH(optim::CombinedOptimizer(std::move(parts)),
                    Contains("(5, 4) is in AdamW and in Muon"));
  CHECK_THROWS_WITH(optim::CombinedOptimizer({}), Contains("no optimisers"));

  const auto both = pair.make();
  pair.set_grads(1);
  both->step();
  const NamedTensors saved = both->state_dict();
  NamedTensors state;
  for (const auto& [name, tensor] : saved) state.emplace_back(name, tensor.clone());
  optim::AdamW alone({pair.vector, pair.matrix});
  CHECK_THROWS_WITH(both->load_state_dict(alone.state_dict()),
                    Contains("Muon.momentum.0") && Contains("exp_avg.1"));
  CHECK_THROWS_WITH(alone.load_state_dict(state), Contains("AdamW.exp_avg.0"));
  NamedTensors negative;  // in the last part
  for (const auto& [name, tensor] : state)
    negative.emplace_back(name, tensor * (name == "Muon.step" ? -1.0 : 2.0));
  CHECK_THROWS_WITH(both->load_state_dict(negative),
                    "CombinedOptimizer: expected counts from 0 to 2^53 in Muon.step, got -1");
  for (size_t i = 0; i < state.size(); ++i)
    CHECK(golden::same(both->state_dict()[i].second, state[i].second));

  // If one part cannot take the step, none does.
  Tensor bad = ones({5, 4});
  bad.slice(0, 0, 1).fill_(std::nan(""));
  pair.set_grads(2);
  pair.matrix.set_grad(bad);
  const Tensor vector = pair.vector.detach().clone();
  CHECK_THROWS_WITH(both->step(), Contains("NaN"));
  CHECK(golden::same(pair.vector.detach(), vector));
}

TEST_CASE("two optimisers of one kind keep their states apart", "[optim][muon]") {
  const Pair pair;
  std::vector<std::unique_ptr<optim::Optimizer>> parts;
  parts.push_back(std::make_unique<optim::Lion>(optim::ParameterGroups{pair.matrix}));
  parts.push_back(std::make_unique<optim::Lion>(optim::ParameterGroups{pair.vector}));
  const optim::CombinedOptimizer both(std::move(parts));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : both.state_dict()) names.push_back(name);
  CHECK(names ==
        std::vector<std::string>{"Lion.step", "Lion.exp_avg.0", "Lion2.step", "Lion2.exp_avg.0"});
}

TEST_CASE("three optimisers of one kind resume to the same bits", "[optim][muon]") {
  struct Three : Pair {
    Tensor third = random_matrix({4}, 13, float32).requires_grad_();  // of the second's shape
    std::unique_ptr<optim::CombinedOptimizer> make_three() const {
      std::vector<std::unique_ptr<optim::Optimizer>> parts;
      for (const Tensor& p : {matrix, vector, third})
        parts.push_back(std::make_unique<optim::SGD>(
            std::vector<Tensor>{p}, optim::SGDOptions{.lr = 0.1, .momentum = 0.9}));
      return std::make_unique<optim::CombinedOptimizer>(std::move(parts));
    }
    void run(optim::Optimizer& optimizer, uint64_t begin, uint64_t end) const {
      for (uint64_t step = begin; step < end; ++step) {
        set_grads(step);
        third.set_grad(random_matrix({4}, step + 200, float32));
        optimizer.step();
      }
    }
  };
  const Three through, before, after;
  const auto whole = through.make_three(), first = before.make_three(), second = after.make_three();
  through.run(*whole, 0, 4);
  before.run(*first, 0, 2);
  {
    const NoGrad no_grad;
    after.matrix.copy_(before.matrix), after.vector.copy_(before.vector);
    after.third.copy_(before.third);
  }
  CHECK(first->state_dict().back().first == "SGD3.momentum.0");
  second->load_state_dict(first->state_dict());
  after.run(*second, 2, 4);
  CHECK(golden::same(through.matrix, after.matrix));
  CHECK(golden::same(through.vector, after.vector));
  CHECK(golden::same(through.third, after.third));
}

TEST_CASE("CombinedOptimizer: learning rates of 0, and refusals", "[optim][muon]") {
  const Pair together, apart;
  const auto both = together.make();
  both->set_lr(0);
  together.set_grads(1), apart.set_grads(1);
  both->step();
  CHECK(golden::same(together.matrix, apart.matrix));
  CHECK(golden::same(together.vector, apart.vector));
  both->set_lr(0.02);  // the rates' ratio is that at construction
  both->step();
  optim::AdamW adamw({apart.vector}, {.lr = 0});
  optim::Muon muon({{apart.matrix}}, {.lr = 0});
  adamw.step(), muon.step();
  adamw.set_lr(0.02), muon.set_lr(0.1);
  adamw.step(), muon.step();
  CHECK(golden::same(together.matrix, apart.matrix));
  CHECK(golden::same(together.vector, apart.vector));
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH(both->set_lr(bad),
                      Contains("CombinedOptimizer: expected a finite learning rate >= 0"));
  CHECK(both->lr() == 0.02);

  std::vector<std::unique_ptr<optim::Optimizer>> parts;
  parts.push_back(std::make_unique<optim::AdamW>(optim::ParameterGroups{apart.vector},
                                                 optim::AdamWOptions{.lr = 0}));
  CHECK_THROWS_WITH(optim::CombinedOptimizer(std::move(parts)),
                    "CombinedOptimizer: expected a learning rate > 0 of AdamW, got 0");
  parts.clear();
  parts.push_back(std::make_unique<optim::AdamW>(optim::ParameterGroups{apart.vector}));
  parts.push_back(nullptr);
  CHECK_THROWS_WITH(optim::CombinedOptimizer(std::move(parts)),
                    "CombinedOptimizer: optimiser 1 is null");
}

namespace {
struct Named : optim::TensorOptimizer {
  Named(const char* name, const Tensor& param)
      : TensorOptimizer(name, {param}, 1, 0, {"u"}, [](auto& p) { p.param -= p.grad; }) {}
};
}  // namespace

TEST_CASE("CombinedOptimizer: each part has a name of its own", "[optim][muon]") {
  std::vector<std::unique_ptr<optim::Optimizer>> parts;
  for (const char* name : {"Mine", "Mine", "Mine2", "Mine"})
    parts.push_back(std::make_unique<Named>(name, ones({2}).requires_grad_()));
  optim::CombinedOptimizer all(std::move(parts));
  std::set<std::string> names;
  for (const auto& [name, tensor] : all.state_dict()) names.insert(name);
  CHECK(names.size() == 8);
  CHECK_NOTHROW(all.load_state_dict(all.state_dict()));
}

TEST_CASE("CombinedOptimizer: a rate too large for one part changes none", "[optim][muon]") {
  std::vector<std::unique_ptr<optim::Optimizer>> parts;
  for (const double lr : {1e-3, 1.0})
    parts.push_back(std::make_unique<optim::SGD>(std::vector<Tensor>{ones({2}).requires_grad_()},
                                                 optim::SGDOptions{.lr = lr}));
  optim::CombinedOptimizer both(std::move(parts));
  CHECK_THROWS_WITH(both.set_lr(1e306),
                    "CombinedOptimizer: expected a finite learning rate >= 0 of SGD2, got inf");
  CHECK(both.lr() == 1e-3);
}

}  // namespace muon_test
