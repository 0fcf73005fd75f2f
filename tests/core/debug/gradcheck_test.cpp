#include "gradus/core/debug/gradcheck.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"

namespace gradcheck_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

using Tensors = std::vector<Tensor>;

/// x^2 with gradient `factor` * x: correct for 2.
Tensor square(const Tensor& x, double factor) {
  const Tensor y = x.detach() * x.detach();
  record("square", {y}, {x}, saves_input(0),
         [factor](Backward& b) { b.give(0, b.grad() * b.input(0) * factor); });
  return y;
}

/// x^2 with the correct gradient, detached from x: second derivatives are wrong.
Tensor square_once(const Tensor& x) {
  const Tensor y = x.detach() * x.detach();
  record("square_once", {y}, {x}, saves_input(0),
         [](Backward& b) { b.give(0, b.grad() * b.input(0).detach() * 2); });
  return y;
}

Tensor leaf(const Shape& shape) { return randn(shape, float64).requires_grad_(); }

}  // namespace

TEST_CASE("gradcheck accepts a right gradient and refuses a wrong one", "[gradcheck]") {
  manual_seed(1);
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, float64).requires_grad_();
  CHECK(gradcheck([](const Tensors& in) { return Tensors{square(in[0], 2)}; }, {x}));
  CHECK(gradgradcheck([](const Tensors& in) { return Tensors{square(in[0], 2)}; }, {x}));
  const GradcheckResult wrong =
      gradcheck([](const Tensors& in) { return Tensors{square(in[0], 2.1)}; }, {x});
  CHECK_FALSE(wrong);
  CHECK_THAT(wrong.message, StartsWith("gradcheck: d output 0 at (0, 0) / d input 0 at (0, 0): "
                                       "analytic 2.1, numeric "));
}

TEST_CASE("gradcheck names a function that returns an undefined tensor", "[gradcheck]") {
  const auto f = [](const Tensors&) { return Tensors{Tensor()}; };
  CHECK_THROWS_WITH(gradcheck(f, {leaf({2})}), "gradcheck: f returned an undefined tensor");
}

TEST_CASE("gradcheck refuses a gradient that is NaN or infinite", "[gradcheck]") {
  const Tensor x = tensor({1, 2}, float64).requires_grad_();
  for (const auto& [factor, shown] : {std::pair{NAN, "nan"}, {INFINITY, "inf"}}) {
    const auto f = [factor = factor](const Tensors& in) { return Tensors{square(in[0], factor)}; };
    const GradcheckResult result = gradcheck(f, {x});
    CHECK_FALSE(result);
    CHECK_THAT(result.message, Contains(shown) && Contains("numeric 2"));
  }
}

TEST_CASE("gradcheck refuses a central difference that is infinite", "[gradcheck]") {
  const Tensor x = zeros({1}, float64).requires_grad_();
  const auto f = [](const Tensors& in) {
    return Tensors{where(gt(in[0], 0), full({1}, INFINITY, float64), in[0])};
  };
  const GradcheckResult result = gradcheck(f, {x});
  CHECK_FALSE(result);
  CHECK_THAT(result.message, Contains("analytic 1, numeric inf"));
}

TEST_CASE("gradcheck names the input, output and element that differ", "[gradcheck]") {
  const Tensor a = tensor({1, 2}, float64).requires_grad_(),
               b = tensor({3, 4}, float64).requires_grad_();
  const Tensor mask = from_data<double>({0, 1}, {2});
  const auto f = [&](const Tensors& in) {  // the gradient is wrong in b[1] alone
    return Tensors{in[0] * 2, in[0] + square(in[1], 2) * (1 - mask) + square(in[1], 3) * mask};
  };
  const GradcheckResult result = gradcheck(f, {a, b});
  CHECK_THAT(result.message,
             Contains("d output 1 at (1,) / d input 1 at (1,): analytic 12, numeric 8") ||
                 Contains("numeric 7.99999"));
}

TEST_CASE("gradgradcheck detects a gradient detached from its input", "[gradcheck]") {
  const Tensor x = tensor({1, 2}, float64).requires_grad_();
  const auto f = [](const Tensors& in) { return Tensors{square_once(in[0])}; };
  CHECK(gradcheck(f, {x}));
  const GradcheckResult result = gradgradcheck(f, {x});
  CHECK_FALSE(result);
  CHECK_THAT(
      result.message,
      StartsWith("gradgradcheck: d output 0 at (0,) / d input 0 at (0,): analytic 0, numeric"));
}

TEST_CASE("gradcheck: takes several inputs and outputs, integer inputs and unused inputs",
          "[gradcheck]") {
  manual_seed(2);
  const Tensor ids = tensor({0, 2, 2}, int64);
  const auto f = [](const Tensors& in) {
    const Tensor rows = embedding(in[0], in[1]);
    return Tensors{rows * rows, argmax(in[0], 1), sum(in[0] * in[2], 0), in[2] * in[2]};
  };
  const Tensors inputs{leaf({3, 2}), ids, leaf({1, 2}), leaf({2})};
  const GradcheckResult first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
  INFO(first.message << second.message);
  CHECK((first && second));
}

TEST_CASE("gradcheck: strided inputs keep their strides and values", "[gradcheck]") {
  manual_seed(3);
  const Tensor x =
      randn({4, 6}, float64).transpose(0, 1).slice(0, 1, 6, 2).detach().requires_grad_();
  const auto before = x.to_vector<double>();
  bool kept_strides = true;
  const auto f = [&](const Tensors& in) {
    kept_strides = kept_strides && in[0].strides() == x.strides();
    return Tensors{sum(in[0] * in[0], 0)};
  };
  CHECK(gradcheck(f, {x}));
  CHECK(gradgradcheck(f, {x}));
  CHECK(kept_strides);
  CHECK(x.to_vector<double>() == before);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("gradcheck: the caller's random state stays as it was", "[gradcheck]") {
  manual_seed(4);
  const Tensor x = leaf({2, 2});
  const RandomKey before = default_generator().state();
  CHECK(gradgradcheck([](const Tensors& in) { return Tensors{in[0] * in[0]}; }, {x}));
  CHECK(default_generator().state().counter == before.counter);
}

TEST_CASE("gradcheck refuses what it can't check", "[gradcheck]") {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * 2}; };
  CHECK_THROWS_WITH(gradcheck(f, {ones({2}).requires_grad_()}),
                    "gradcheck: input 0 requires grad: expected float64, got float32");
  CHECK_THROWS_WITH(gradcheck(f, {ones({2}, float64)}), "gradcheck: no input requires grad");
  const Tensor expanded = ones({1, 3}, float64).expand({2, 3}).detach().requires_grad_();
  CHECK_THROWS_WITH(gradcheck(f, {expanded}), Contains("elements that share memory"));
  CHECK_THROWS_WITH(gradgradcheck(f, {expanded}),
                    StartsWith("gradgradcheck: input 0 of shape (2, 3)"));
  CHECK_THROWS_WITH(gradgradcheck([](const Tensors& in) { return Tensors{in[0].detach()}; },
                                  {ones({2}, float64).requires_grad_()}),
                    "gradgradcheck: no output requires grad");
  const Tensor x = ones({2}, float64).requires_grad_();
  CHECK_THROWS_WITH(
      gradgradcheck([](const Tensors& in) { return Tensors{in[0].to(float32)}; }, {x}),
      "gradgradcheck: output 0 requires grad: expected float64, got float32");
  // Later calls return fewer outputs, or smaller ones.
  const auto changing = [](int64_t size) {
    return [size, calls = 0](const Tensors& in) mutable {
      const Tensor y = in[0] * 2;
      if (calls++ == 0) return Tensors{y, y * 2};
      return size == 0 ? Tensors{y} : Tensors{y, y.slice(0, 0, size)};
    };
  };
  for (const int64_t size : {0, 1}) {
    const std::string message =
        "gradcheck: f returned outputs of other shapes than in its first call";
    CHECK_THROWS_WITH(gradcheck(changing(size), {x}), message);
    CHECK_THROWS_WITH(gradgradcheck(changing(size), {x}), "grad" + message);
  }
  // A missing gradient counts as 0.
  CHECK_FALSE(gradcheck([](const Tensors& in) { return Tensors{in[0].detach()}; },
                        {ones({2}, float64).requires_grad_()}));
}

TEST_CASE("gradcheck refuses each kind of wrong gradient", "[gradcheck]") {
  const Tensor x = tensor({0.5, -1, 2}, float64).requires_grad_();
  // y = x sum(x), dx = sum(dy x) + dy sum(x)
  using RuleOf = std::function<Tensor(const Tensor& x, const Tensor& dy)>;
  const auto check_rule = [&](const RuleOf& rule) {
    const auto f = [&](const Tensors& in) {
      const Tensor a = in[0].detach(), y = a * sum(a);
      record("times_sum", {y}, {in[0]}, saves_input(0),
             [rule](Backward& b) { b.give(0, rule(b.input(0), b.grad())); });
      return Tensors{y};
    };
    return std::pair{gradcheck(f, {x}).ok, gradgradcheck(f, {x}).ok};
  };
  const RuleOf right = [](const Tensor& a, const Tensor& dy) { return sum(dy * a) + dy * sum(a); };
  const Tensor last = tensor({0, 0, 1}, float64);
  CHECK(check_rule(right) == std::pair{true, true});
  const std::vector<RuleOf> wrong = {
      [&](const Tensor& a, const Tensor& dy) { return -right(a, dy); },
      [&](const Tensor& a, const Tensor& dy) { return zeros_like(right(a, dy)); },
      [&](const Tensor& a, const Tensor& dy) { return right(a, dy) * (1.0 - last); },
      [&](const Tensor& a, const Tensor& dy) { return right(a, dy) + last * 1e-2; },
      [&](const Tensor& a, const Tensor& dy) { return right(a, dy) * 1.01; },
      // The Jacobian's diagonal only, all but its diagonal, and its transpose.
      [](const Tensor& a, const Tensor& dy) { return dy * (sum(a) + a); },
      [&](const Tensor& a, const Tensor& dy) { return right(a, dy) - dy * (sum(a) + a); },
      [](const Tensor& a, const Tensor& dy) { return a * sum(dy) + dy * sum(a); },
      // Correct only for a gradient of ones.
      [&](const Tensor& a, const Tensor& dy) { return right(a, ones_like(dy)); },
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    INFO(i);
    CHECK_FALSE(check_rule(wrong[i]).first);
  }
  // Correct first derivatives, but second ones lack the part through dy or through x.
  CHECK(check_rule([&](const Tensor& a, const Tensor& dy) { return right(a, dy.detach()); }) ==
        std::pair{true, false});
  CHECK(check_rule([&](const Tensor& a, const Tensor& dy) { return right(a.detach(), dy); }) ==
        std::pair{true, false});
}

TEST_CASE("gradgradcheck names the output gradient that is lost", "[gradcheck]") {
  const Tensor x = tensor({1, 2}, float64).requires_grad_();
  const auto f = [](const Tensors& in) {
    const Tensor y = in[0].detach() * 3.0;
    record("thrice", {y}, {in[0]}, saves_nothing,
           [](Backward& b) { b.give(0, b.grad().detach() * 3.0); });
    return Tensors{argmax(in[0], 0), in[0] * 2.0, y};  // the second of the floating outputs
  };
  CHECK_THAT(gradgradcheck(f, {x}).message,
             StartsWith("gradgradcheck: d output 0 at (0,) / d output gradient 1 at (0,): analytic "
                        "0, numeric "));
}

TEST_CASE("gradcheck: eps, atol and rtol, and their defaults", "[gradcheck]") {
  const auto scaled = [](double factor) {
    return [factor](const Tensors& in) { return Tensors{square(in[0], factor)}; };
  };
  const Tensor x = tensor({1000}, float64).requires_grad_();  // where atol hardly counts
  CHECK(gradcheck(scaled(2 * (1 + 0.9e-3)), {x}));
  CHECK_FALSE(gradcheck(scaled(2 * (1 + 1.1e-3)), {x}));
  CHECK_FALSE(gradcheck(scaled(2 * (1 + 0.9e-3)), {x}, {.rtol = 1e-4}));
  CHECK(gradcheck(scaled(2.1), {x}, {.rtol = 0.06}));
  CHECK(gradcheck(scaled(2.1), {x}, {.atol = 101, .rtol = 0}));
  CHECK_FALSE(gradcheck(scaled(2.1), {x}, {.atol = 99, .rtol = 0}));

  const auto off = [](double error) {  // y = 0 x, whose gradient is off by `error`
    return [error](const Tensors& in) {
      const Tensor y = zeros_like(in[0]);
      record("off", {y}, {in[0]}, saves_nothing,
             [error](Backward& b) { b.give(0, b.grad() * error); });
      return Tensors{y};
    };
  };
  CHECK(gradcheck(off(0.9e-5), {x}));
  CHECK_FALSE(gradcheck(off(1.1e-5), {x}));
  CHECK_FALSE(gradcheck(off(-1.1e-5), {x}));

  const auto cube = [](const Tensors& in) { return Tensors{in[0] * in[0] * in[0]}; };
  const Tensor zero = zeros({1}, float64).requires_grad_();  // the difference there is eps^2
  CHECK(gradcheck(cube, {zero}));
  CHECK_FALSE(gradcheck(cube, {zero}, {.eps = 0.1}));
  CHECK(gradcheck(cube, {zero}, {.eps = 0.1, .atol = 0.011}));

  // The central difference of the gradient of x^4 is 12 x^2 + 4 eps^2.
  const auto quartic = [](const Tensors& in) { return Tensors{pow(in[0], 4)}; };
  const Tensor one = ones({1}, float64).requires_grad_();
  CHECK(gradgradcheck(quartic, {one}));
  CHECK_FALSE(gradgradcheck(quartic, {one}, {.eps = 0.1}));
  CHECK(gradgradcheck(quartic, {one}, {.eps = 0.1, .rtol = 0.01}));
}

TEST_CASE("gradcheck refuses inputs whose elements share memory, and takes axes in any order",
          "[gradcheck]") {
  const auto f = [](const Tensors& in) { return Tensors{in[0] * in[0]}; };
  const auto seen = [](const Shape& shape, const Shape& strides) {
    const Tensor x = arange(0, 24, 1, float64);
    x.impl().shape = shape;
    x.impl().strides = strides;
    return x.requires_grad_();
  };
  CHECK_THROWS_WITH(gradcheck(f, {seen({3, 2}, {1, 1})}), Contains("elements that share memory"));
  CHECK_THROWS_WITH(gradcheck(f, {seen({2, 3}, {2, 1})}), Contains("elements that share memory"));
  CHECK(gradcheck(f, {seen({2, 3}, {3, 1})}));
  CHECK(gradcheck(f, {seen({2, 3}, {2, 4})}));
  CHECK(gradcheck(f, {seen({1, 3}, {0, 4})}));
}

}  // namespace gradcheck_test
