// Activations by name.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

namespace activation_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

TEST_CASE("activations: each name gives its op") {
  const Tensor x = tensor({-2, -0.5, 0.25, 3}, float64);
  const std::vector<std::pair<std::string, Tensor>> expected{{"none", x},
                                                             {"relu", relu(x)},
                                                             {"tanh", tanh(x)},
                                                             {"sigmoid", sigmoid(x)},
                                                             {"gelu", gelu(x)},
                                                             {"gelu_tanh", gelu_tanh(x)},
                                                             {"silu", silu(x)},
                                                             {"quick_gelu", quick_gelu(x)},
                                                             {"relu_squared", relu_squared(x)}};
  REQUIRE(expected.size() == activations.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(name_of(activations[i]) == expected[i].first);
    CHECK(activate(x, activations[i]).to_vector<double>() ==
          expected[i].second.to_vector<double>());
    const Tensor y = linear(x.unsqueeze(1), ones({1, 1}, float64), {}, activations[i]);
    CHECK(norm(y.squeeze(1) - expected[i].second).item() < 1e-12);
  }
  const auto unheard_of = static_cast<Activation>(99);
  CHECK_THROWS_WITH(activate(x, unheard_of), "activation: unknown activation 99");
  CHECK_THROWS_WITH(linear(x, ones({2, 4}, float64), {}, unheard_of),
                    "activation: unknown activation 99");
}

TEST_CASE("activations: finite gradients at the largest values") {
  for (const Dtype dtype : {float32, float64}) {
    const double huge = dtype == float32 ? 3e38 : 1.7e308;
    for (const Activation a : activations) {
      INFO(name_of(a));
      for (const bool layer : {false, true}) {
        const Tensor x = tensor({-huge, -1e10, 1e10, huge}, dtype).requires_grad_();
        const Tensor w = ones({1, 1}, dtype);
        sum(layer ? linear(x.unsqueeze(1), w, {}, a) : activate(x, a)).backward();
        const bool bounded = a == Activation::tanh || a == Activation::sigmoid;
        const double left = a == Activation::none ? 1 : 0, right = bounded ? 0 : 1;
        if (a == Activation::relu_squared)  // the slope of the largest overflows
          CHECK(difference(x.grad(), {0, 0, 2e10, INFINITY}) < 1e-15);
        else
          CHECK(difference(x.grad(), {left, left, right, right}) < 1e-15);
      }
    }
  }
}

TEST_CASE("activations: gelu and its derivatives have their limits at infinities") {
  for (const Dtype dtype : {float32, float64})
    for (const Activation a : {Activation::gelu, Activation::gelu_tanh}) {
      INFO(name_of(a) << " " << dtype);
      const double far = INFINITY;
      const Tensor x = tensor({-far, -1e30, -2e19, 2e19, 1e30, far}, dtype).requires_grad_();
      const Tensor y = activate(x, a);
      CHECK(difference(y.slice(0, 0, 3), {0, 0, 0}) == 0);
      CHECK(difference(y.slice(0, 3, 5) * 1e-30, {2e-11, 1}) < 1e-7);
      CHECK(y[5].item() == far);
      const Tensor dx = grad({y.slice(0, 0, 6).sum()}, {x}, {.create_graph = true})[0];
      CHECK(difference(dx, {0, 0, 0, 1, 1, 1}) == 0);
      CHECK(difference(grad({dx.sum()}, {x})[0], {0, 0, 0, 0, 0, 0}) == 0);
      y.sum().backward();
      CHECK(difference(x.grad(), {0, 0, 0, 1, 1, 1}) == 0);
    }
}

TEST_CASE("activations: the squared ReLU at zeros, denormals, infinities and NaN") {
  for (const Dtype dtype : {float32, float64}) {
    const double inf = INFINITY, tiny = dtype == float32 ? 1e-30 : 1e-200;
    const Tensor x = tensor({-inf, -2, -0.0, 0, tiny, 3, inf, NAN}, dtype).requires_grad_();
    const Tensor y = relu_squared(x), w = ones({1, 1}, dtype);
    const std::vector<double> slope{0, 0, 0, 0, 2 * tiny, 6, inf, NAN};
    CHECK(difference(y, {0, 0, 0, 0, 0, 9, inf, NAN}) < 1e-15);
    const Tensor dx = grad({y.sum()}, {x}, {.create_graph = true})[0];
    y.sum().backward();
    const Tensor plain = x.grad();
    x.set_grad({});
    linear(x.unsqueeze(1), w, {}, Activation::relu_squared).sum().backward();
    const Tensor fused = x.grad();
    for (const Tensor& found : {dx.detach(), plain, fused})
      for (size_t i = 0; i < slope.size(); ++i)  // NaN equals NaN; tiny slopes exactly
        CHECK((found.to_vector<double>()[i] == Approx(slope[i]).epsilon(1e-6).margin(0) ||
               (std::isnan(slope[i]) && std::isnan(found.to_vector<double>()[i]))));
    const Tensor ddx = grad({dx.slice(0, 1, 6).sum()}, {x})[0];
    CHECK(difference(ddx.slice(0, 1, 6), {0, 0, 0, 2, 2}) == 0);
  }
}

}  // namespace activation_test
