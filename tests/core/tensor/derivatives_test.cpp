#include "gradus/core/tensor/derivatives.h"

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace derivatives_test {

using namespace gradus;
using namespace gradus::testing;

namespace {

using Function = std::function<Tensor(const Tensor&)>;
using X = const Tensor&;

const Function row_softmax = [](const Tensor& x) { return softmax(x, -1); };
const Function sum_of_cubes = [](const Tensor& x) { return sum(x * x * x); };

/// x^T A x for the matrix A, which can be a leaf.
Function quadratic(const Tensor& a) {
  return [a](const Tensor& x) { return sum(x * matmul(a, x)); };
}

/// The functions of golden/scripts/make_derivative_golden.py.
Function golden_function(const std::string& name) {
  if (name == "matrix") return [](const Tensor& x) { return matmul(tanh(x), x.mT()); };
  if (name == "column") return [](const Tensor& x) { return sum(sin(x) * exp(x), 0); };
  if (name == "mixed") return [](const Tensor& x) { return sum(tanh(x) * roll(x * x, 1)); };
  return [](const Tensor& x) { return log(sum(exp(x))); };
}

}  // namespace

TEST_CASE("jacobian: softmax's is diag(s) - s s^T, at sizes 1 and prime, in both dtypes") {
  manual_seed(1);
  for (const Dtype dtype : {float32, float64})
    for (const int64_t n : {1, 2, 7}) {
      const Tensor x = randn({n}, dtype), s = softmax(x, -1);
      const Tensor expected = diag(s) - s.unsqueeze(1) * s;
      CHECK(difference(jacobian(row_softmax, x), expected) < (dtype == float64 ? 1e-15 : 1e-6));
    }
}

TEST_CASE("hessian: x^T A x has A + A^T, and hvp is its product with v") {
  manual_seed(2);
  for (const Dtype dtype : {float32, float64})
    for (const int64_t n : {1, 5, 13}) {
      const double tolerance = dtype == float64 ? 1e-14 : 1e-5;
      const Tensor a = randn({n, n}, dtype), x = randn({n}, dtype), v = randn({n}, dtype);
      CHECK(difference(hessian(quadratic(a), x), a + a.mT()) < tolerance);
      CHECK(difference(hvp(quadratic(a), x, v), matmul(a + a.mT(), v)) < tolerance);
    }
}

TEST_CASE("derivatives: PyTorch's values", "[golden]") {
  const golden::File file("derivatives");
  for (const Dtype dtype : {float32, float64}) {
    const double tolerance = dtype == float64 ? 1e-13 : 1e-5;
    for (const std::string name : {"matrix", "column", "mixed", "logsumexp"}) {
      INFO(name);
      const Function f = golden_function(name);
      const Tensor x = file.get(name + ".x", dtype), v = file.get(name + ".v", dtype);
      const auto check = [&](const Tensor& got, const std::string& what) {
        CHECK(got.dtype() == dtype);
        CHECK(golden::difference(got, file.get(name + what)) < tolerance);
      };
      check(jacobian(f, x), ".jacobian");
      if (!file.has(name + ".hessian")) continue;
      check(hessian(f, x), ".hessian");
      check(hvp(f, x, v), ".hvp");
      const Tensor leaf = x.clone().requires_grad_();  // d |H v|^2 / dx, by create_graph
      const Tensor h = hvp(f, leaf, v, {.create_graph = true});
      check(grad({sum(h * h)}, {leaf})[0], ".third");
    }
  }
}

TEST_CASE("derivatives: shapes are those of the output followed by the input's") {
  const Function identity = [](const Tensor& x) { return x; };
  CHECK(jacobian(identity, zeros({2, 3})).shape() == Shape{2, 3, 2, 3});
  CHECK(difference(jacobian(identity, zeros({2, 3})).reshape({6, 6}), eye(6)) == 0);
  CHECK(jacobian(sum_of_cubes, zeros({2, 3})).shape() == Shape{2, 3});
  CHECK(jacobian(identity, scalar(2)).shape() == Shape{});
  CHECK(jacobian(identity, zeros({0, 3})).shape() == Shape{0, 3, 0, 3});
  CHECK(jacobian([](const Tensor& x) { return sum(x, 1); }, zeros({5, 0})).shape() ==
        Shape{5, 5, 0});
  CHECK(hessian(sum_of_cubes, zeros({0})).shape() == Shape{0, 0});
  CHECK(hessian(sum_of_cubes, zeros({2, 1, 3})).shape() == Shape{2, 1, 3, 2, 1, 3});
  CHECK(hvp(sum_of_cubes, zeros({0, 2}), zeros({0, 2})).shape() == Shape{0, 2});
  CHECK(hessian([](const Tensor& x) { return x * x; }, scalar(5, float64)).item() == 2);
  CHECK(jacobian(sum_of_cubes, zeros(Shape::filled(max_rank, 1))).rank() == max_rank);
  // An output of another dtype; the derivative has x's.
  CHECK(jacobian([](const Tensor& x) { return x.to(float64); }, ones({2})).dtype() == float32);
}

TEST_CASE("derivatives: 0 where the output does not depend on x") {
  const Tensor x = ones({3}), w = ones({2}).requires_grad_();
  for (const Function& f : {Function([](const Tensor&) { return ones({2}); }),
                            Function([&](const Tensor&) { return w * 2; })}) {
    CHECK(difference(jacobian(f, x), zeros({2, 3})) == 0);
    const Function total = [&](const Tensor& at) { return sum(f(at)); };
    CHECK(difference(hessian(total, x), zeros({3, 3})) == 0);
    CHECK(difference(hvp(total, x, x), zeros({3})) == 0);
  }
  const Function linear = [](const Tensor& at) { return sum(at * 3); };
  CHECK(difference(hessian(linear, x), zeros({3, 3})) == 0);
  CHECK(difference(hvp(linear, x, x), zeros({3})) == 0);
  const Function half = [](const Tensor& at) { return at.slice(0, 0, 1) * at.slice(0, 0, 1); };
  CHECK(difference(jacobian(half, x), {2, 0, 0}) == 0);
}

TEST_CASE("derivatives: x is left alone, and so are its gradient, its hooks and f's captures") {
  const Tensor x = tensor({1, 2}, float64), w = tensor({3, 4}, float64).requires_grad_();
  const Tensor outside = w * w;  // a graph that later passes still need
  const Function f = [&](const Tensor& at) { return sum(outside * at * at); };
  for (const bool requires_grad : {false, true}) {
    x.requires_grad_(requires_grad);
    if (requires_grad) x.register_hook([](const Tensor&) -> Tensor { throw Error("hook ran"); });
    CHECK(difference(jacobian(f, x), {18, 64}) == 0);
    CHECK(difference(hessian(f, x), {18, 0, 0, 32}) == 0);
    const Tensor product = hvp(f, x, x);
    CHECK(difference(product, {18, 64}) == 0);
    CHECK_FALSE(product.requires_grad());
    CHECK_FALSE(jacobian(f, x).requires_grad());
    CHECK(x.requires_grad() == requires_grad);
    CHECK_FALSE(x.grad().defined());
    CHECK_FALSE(w.grad().defined());
  }
  sum(outside).backward();
  CHECK(difference(w.grad(), {6, 8}) == 0);
}

TEST_CASE("derivatives: f runs with gradients on, and modes are as before, after a throw too") {
  const NoGrad no_grad;
  const Tensor x = tensor({1, 2}, float64);
  CHECK(difference(jacobian(sum_of_cubes, x), {3, 12}) == 0);
  CHECK(difference(hessian(sum_of_cubes, x), {6, 0, 0, 12}) == 0);
  CHECK(difference(hvp(sum_of_cubes, x, x), {6, 24}) == 0);
  CHECK_FALSE(grad_enabled());
  const Function throws = [](const Tensor&) -> Tensor { throw Error("f: no"); };
  CHECK(error_of([&] { jacobian(throws, x); }) == "f: no");
  CHECK(error_of([&] { hessian(throws, x); }) == "f: no");
  CHECK(error_of([&] { hvp(throws, x, x); }) == "f: no");
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("derivatives: create_graph connects them to x and to what f captures") {
  manual_seed(3);
  const Tensor x = randn({3}, float64), a = randn({3, 3}, float64), v = randn({3}, float64);
  const auto check = [](const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                        const Tensor& x, const Tensor& a) {
    const TensorFunction g = [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{f(in[0], in[1])};
    };
    const GradcheckResult result = gradcheck(g, {x, a});
    INFO(result.message);
    CHECK(result);
  };
  x.requires_grad_();
  a.requires_grad_();
  v.requires_grad_();
  const DerivativeOptions on{.create_graph = true};
  const auto cubic = [](const Tensor& a) {
    return [a](const Tensor& x) { return sum(x * x * matmul(a, sin(x))); };
  };
  check([&](X x, X a) { return jacobian([&](X at) { return tanh(matmul(a, at * at)); }, x, on); },
        x, a);
  check([&](X x, X a) { return hessian(cubic(a), x, on); }, x, a);
  check([&](X x, X a) { return hvp(cubic(a), x, v.detach(), on); }, x, a);
  check([&](X v, X a) { return hvp(cubic(a), x.detach(), v, on); }, v, a);
  // Nested: the Jacobian of the gradient is the Hessian, of strided and expanded inputs too.
  for (const Tensor& at : {x.detach(), tensor({{1, 2}, {3, 4}, {5, 6}}, float64).select(1, 1),
                           scalar(2, float64).expand({3})}) {
    const Tensor nested = jacobian([&](X y) { return jacobian(cubic(a), y, on); }, at);
    CHECK(difference(nested, hessian(cubic(a), at)) < 1e-14);
  }
}

TEST_CASE("derivatives: errors name the function and what is wrong") {
  const Tensor x = ones({2, 3}), deep = ones(Shape::filled(5, 1));
  CHECK(error_of([&] { hessian([](const Tensor& at) { return at; }, x); }) ==
        "hessian: expected f to return one element, got shape (2, 3)");
  CHECK(error_of([&] { hvp([](const Tensor& at) { return sum(at, 0); }, x, x); }) ==
        "hvp: expected f to return one element, got shape (3,)");
  CHECK(error_of([&] { hvp(sum_of_cubes, x, ones({3})); }) ==
        "hvp: expected v of float32 (2, 3), got float32 (3,)");
  CHECK(error_of([&] { jacobian(sum_of_cubes, x.to(int64)); }) ==
        "jacobian: expected float32 or float64, got int64");
  CHECK(error_of([&] { jacobian([](const Tensor& at) { return at.to(int64); }, x); }) ==
        "jacobian: expected float32 or float64, got int64");
  CHECK(error_of([&] { hessian([](const Tensor&) { return Tensor(); }, x); }) ==
        "hessian: f returned an undefined tensor");
  CHECK(error_of([&] { jacobian([](const Tensor& at) { return at; }, deep); }) ==
        "jacobian: y (1, 1, 1, 1, 1) and x (1, 1, 1, 1, 1) have more than 8 axes together");
}

}  // namespace derivatives_test
