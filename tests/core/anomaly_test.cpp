// AnomalyMode: finding the op that computed a NaN or an infinity.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/runtime/random.h"
#include "tests/core/autograd_test.h"

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

TEST_CASE("AnomalyMode names the op whose backward made a NaN or an infinity", "[autograd]") {
  const Tensor x = leaf({0, 4});
  auto loss = [&] { return sum(exp(sqrt(x)) * 2.0); };
  CHECK_NOTHROW(loss().backward());
  {
    const AnomalyMode anomaly;
    CHECK_THROWS_WITH(loss().backward(),
                      "anomaly: the backward of sqrt made a NaN or an infinity for input 0 of "
                      "shape (2,)");
    CHECK_THROWS_WITH(grad({loss()}, {x}), Contains("the backward of sqrt"));
    CHECK_NOTHROW(sum(x * x).backward());
    // Infinite inputs are not the op's fault.
    const Tensor infinite = full({2}, INFINITY, float64);
    CHECK_NOTHROW((x * 2.0).backward(infinite));
  }
  CHECK_NOTHROW(loss().backward());

  // Kernels that add to an existing sum are checked too.
  const Tensor w = ones({2, 2}, float64).requires_grad_(), data = full({1, 2}, 1e300, float64);
  const AnomalyMode anomaly;
  sum(w).backward();
  const Tensor huge = full({1, 2}, 1e300, float64);
  CHECK_THROWS_WITH(linear(data, w).backward(huge), Contains("the backward of linear"));
  CHECK_THROWS_WITH(matmul(data, w).backward(huge), Contains("the backward of matmul"));
}

TEST_CASE("AnomalyMode changes no bit of a gradient", "[autograd]") {
  manual_seed(3);
  const Tensor w = randn({37, 37}).requires_grad_(), b = randn({37}).requires_grad_();
  const Tensor x = randn({129, 37});
  auto gradients = [&] {
    w.set_grad({});
    b.set_grad({});
    Tensor y = x;
    for (int i = 0; i < 3; ++i) y = tanh(linear(layer_norm(y, w[0], b), w, b));
    mean(y * matmul(x, w)).backward();
    return std::pair(w.grad().to_vector<float>(), b.grad().to_vector<float>());
  };
  const auto expected = gradients();
  const AnomalyMode anomaly;
  CHECK(gradients() == expected);
}

TEST_CASE("AnomalyMode names the op that made a NaN or an infinity", "[autograd]") {
  const Tensor x = leaf({0, 4}), infinite = leaf({INFINITY, 1});
  CHECK_NOTHROW(log(x));
  const AnomalyMode anomaly;
  CHECK_THROWS_WITH(log(x),
                    "anomaly: log made a NaN or an infinity of shape (2,) from finite inputs");
  CHECK_THROWS_WITH(x / 0.0, Contains("a NaN or an infinity"));
  // Neither infinite inputs nor infinities asked for are the op's fault.
  CHECK_NOTHROW(infinite * 0.0);
  const Tensor mask = from_data(std::vector<bool>{true, false}, {2});
  CHECK(values(softmax(masked_fill(x, mask, -INFINITY), -1)) == Values{0, 1});
  const NoGrad no_grad;
  CHECK_NOTHROW(log(x));
}

TEST_CASE("AnomalyMode finds infinities and NaN in either dtype, in grad and create_graph alike",
          "[autograd]") {
  const AnomalyMode anomaly;
  for (Dtype dtype : {float32, float64}) {
    const Tensor x = tensor({1, 0}, dtype).requires_grad_(), nothing = zeros({2}, dtype);
    CHECK_THROWS_WITH(sum(sqrt(x)).backward(), Contains("the backward of sqrt made"));    // 1/0
    CHECK_THROWS_WITH(sqrt(x).backward(nothing), Contains("the backward of sqrt made"));  // 0/0
    for (bool create_graph : {false, true})
      CHECK_THROWS_WITH(grad({sum(sqrt(x))}, {x}, {.create_graph = create_graph}),
                        Contains("the backward of sqrt made"));
    CHECK_FALSE(x.grad().defined());
  }
}
