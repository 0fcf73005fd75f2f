// Optimisers on several parameters longer than a chunk (16,384 elements), against the rules written
// as scalar loops.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>

#include "gradus/core/core.h"
#include "gradus/optim/optim.h"

namespace chunks_test {

using namespace gradus;
using namespace gradus::core;

namespace {

using Values = std::vector<double>;

// Sizes below, at and above the chunk size, and empty. Each tensor has its own scale, so that
// swapped chunks are noticed.
constexpr int64_t sizes[] = {2 * 16384 + 5, 1, 0, 16383, 16384, 16385, 3 * 16384 + 777};

std::vector<Tensor> draw(Dtype dtype, double scale) {
  std::vector<Tensor> out;
  for (int64_t n : sizes) {
    out.push_back(randn({n}, dtype) * scale);
    scale *= 1.7;
  }
  return out;
}

std::vector<Values> numbers(const std::vector<Tensor>& tensors) {
  std::vector<Values> out;
  for (const Tensor& x : tensors) out.push_back(x.to_vector<double>());
  return out;
}

double plain_norm(const std::vector<Values>& gradients) {
  double total = 0;
  for (const Values& g : gradients)
    for (double x : g) total += x * x;
  return std::sqrt(total);
}

// Updates one element from its clipped gradient g, two states a and b, and the step t, counted from
// 1.
using Update = std::function<void(double& p, double g, double& a, double& b, int t)>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

struct Method {
  const char* name;
  Make make;
  Update update;
};

Update adam(double lr, double beta1, double beta2, double eps, double decay, bool decoupled) {
  return [=](double& p, double g, double& m, double& v, int t) {
    if (!decoupled) g += decay * p;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    if (decoupled) p -= lr * decay * p;
    p -= lr * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(beta2, t))) + eps);
  };
}

Update sgd(double lr, double momentum, bool nesterov, double decay) {
  return [=](double& p, double g, double& u, double&, int) {
    g += decay * p;
    u = momentum * u + g;
    p -= lr * (nesterov ? g + momentum * u : u);
  };
}

Update rmsprop(double lr, double alpha, double eps, double momentum, double decay) {
  return [=](double& p, double g, double& v, double& u, int) {
    g += decay * p;
    v = alpha * v + (1 - alpha) * g * g;
    u = momentum * u + g / (std::sqrt(v) + eps);
    p -= lr * u;
  };
}

template <class Optimiser, class Options>
Make made(const Options& options) {
  return [=](const std::vector<Tensor>& p) { return std::make_unique<Optimiser>(p, options); };
}

const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {"SGD", made<optim::SGD>(optim::SGDOptions{.lr = 0.1, .weight_decay = 0.2}),
       sgd(0.1, 0, false, 0.2)},
      {"SGD with momentum",
       made<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.8, .weight_decay = 0.2}),
       sgd(0.1, 0.8, false, 0.2)},
      {"SGD, Nesterov's",
       made<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.8, .nesterov = true}),
       sgd(0.1, 0.8, true, 0)},
      {"Adam",
       made<optim::Adam>(optim::AdamOptions{
           .lr = 0.03, .beta1 = 0.8, .beta2 = 0.97, .eps = 1e-3, .weight_decay = 0.1}),
       adam(0.03, 0.8, 0.97, 1e-3, 0.1, false)},
      {"AdamW",
       made<optim::AdamW>(optim::AdamWOptions{
           .lr = 0.03, .beta1 = 0.7, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1}),
       adam(0.03, 0.7, 0.9, 1e-3, 0.1, true)},
      {"RMSprop",
       made<optim::RMSprop>(optim::RMSpropOptions{
           .lr = 0.03, .alpha = 0.9, .eps = 1e-3, .momentum = 0.7, .weight_decay = 0.1}),
       rmsprop(0.03, 0.9, 1e-3, 0.7, 0.1)},
  };
  return all;
}

// |a - b| / |b|, both norms over all elements of all tensors.
double distance(const std::vector<Values>& a, const std::vector<Values>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i)
    for (size_t j = 0; j < b[i].size(); ++j) {
      difference += (a[i][j] - b[i][j]) * (a[i][j] - b[i][j]);
      size += b[i][j] * b[i][j];
    }
  return std::sqrt(difference / size);
}

// The largest distance of a single tensor, so that long tensors do not hide an error in a short
// one.
double worst_distance(const std::vector<Values>& a, const std::vector<Values>& b) {
  double worst = 0;
  for (size_t i = 0; i < b.size(); ++i)
    if (!b[i].empty()) worst = std::max(worst, distance({a[i]}, {b[i]}));
  return worst;
}

void compare_steps(const Method& method, Dtype dtype, bool clip) {
  manual_seed(31);
  std::vector<Tensor> params;
  for (const Tensor& x : draw(dtype, 0.5)) params.push_back(x.clone().requires_grad_());
  std::vector<Values> expected = numbers(params), a, b;
  for (int64_t n : sizes) a.emplace_back(n), b.emplace_back(n);
  const auto optimiser = method.make(params);
  for (int t = 1; t <= 3; ++t) {
    const std::vector<Tensor> gradients = draw(dtype, 0.3 * t);
    for (size_t i = 0; i < params.size(); ++i) params[i].set_grad(gradients[i]);
    const std::vector<Values> g = numbers(gradients);
    const double norm = plain_norm(g), factor = clip ? 5 / (norm + 1e-6) : 1;
    REQUIRE((!clip || factor < 1));
    const double returned = clip ? optimiser->step({.max_grad_norm = 5}) : optimiser->step();
    if (clip) CHECK(returned == Approx(norm).epsilon(1e-12));
    for (size_t i = 0; i < g.size(); ++i)
      for (size_t j = 0; j < g[i].size(); ++j)
        method.update(expected[i][j], factor * g[i][j], a[i][j], b[i][j], t);
  }
  CHECK(worst_distance(numbers(params), expected) < (dtype == float64 ? 1e-13 : 1e-6));
}

}  // namespace

TEST_CASE("grad_norm equals the plain sum in double over chunks and tensors", "[optim]") {
  for (Dtype dtype : {float32, float64}) {
    manual_seed(30);
    std::vector<Tensor> params;
    const std::vector<Tensor> gradients = draw(dtype, 0.01);
    for (const Tensor& g : gradients) {
      params.push_back(zeros(g.shape(), dtype).requires_grad_());
      params.back().set_grad(g);
    }
    const double norm = plain_norm(numbers(gradients));
    CHECK(optim::grad_norm(params) == Approx(norm).epsilon(1e-12));
    for (size_t i = 0; i < params.size(); ++i)
      CHECK(optim::grad_norm({params[i]}) ==
            Approx(plain_norm(numbers({gradients[i]}))).epsilon(1e-12).margin(0));

    CHECK(optim::clip_grad_norm(params, norm / 3) == Approx(norm).epsilon(1e-12));
    std::vector<Values> expected = numbers(gradients), clipped;
    for (Values& g : expected)
      for (double& x : g) x *= norm / 3 / (norm + 1e-6);
    for (const Tensor& p : params) clipped.push_back(p.grad().to_vector<double>());
    CHECK(worst_distance(clipped, expected) < (dtype == float64 ? 1e-14 : 1e-7));
  }
}

TEST_CASE("optimisers follow their formulas over chunks and tensors", "[optim]") {
  for (const Method& method : methods())
    for (Dtype dtype : {float32, float64})
      for (bool clip : {false, true}) {
        CAPTURE(method.name, dtype, clip);
        compare_steps(method, dtype, clip);
      }
}

}  // namespace chunks_test
