// Activations by name.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

TEST_CASE("activations: each name gives its op") {
  const Tensor x = tensor({-2, -0.5, 0.25, 3}, float64);
  const std::vector<std::pair<std::string, Tensor>> expected{
      {"none", x},       {"relu", relu(x)},
      {"tanh", tanh(x)}, {"sigmoid", sigmoid(x)},
      {"gelu", gelu(x)}, {"gelu_tanh", gelu_tanh(x)},
      {"silu", silu(x)}, {"quick_gelu", quick_gelu(x)}};
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
        CHECK(difference(x.grad(), {left, left, right, right}) < 1e-15);
      }
    }
  }
}
