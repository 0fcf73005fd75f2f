// WeightAverage: running means of weights.

#include "gradus/optim/weight_average.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <type_traits>

#include "gradus/core/core.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"

namespace weight_average_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

TEST_CASE("WeightAverage: the mean follows its formula", "[optim]") {
  const Tensor p = arange(0, 40000, 1, float64).requires_grad_();  // more than one chunk
  optim::WeightAverage average({p}, 0.5);
  Tensor expected = p.detach().clone();
  for (int t = 1; t <= 20; ++t) {
    {
      const NoGrad no_grad;
      Tensor(p).add_(full(p.shape(), 0.1 * t, float64));
    }
    average.update();
    const double d = std::min(0.5, t / (9.0 + t));  // 0.5 from t = 9 on
    expected = d * expected + (1 - d) * p.detach();
    CHECK(allclose(average.means()[0], expected, {.rtol = 1e-12, .atol = 1e-12}));
  }
}

TEST_CASE("WeightAverage: Applied exchanges weights and means, and exchanges them back",
          "[optim]") {
  const Tensor p = ones({3}).requires_grad_();
  optim::WeightAverage average({p}, 0.9);
  {
    const NoGrad no_grad;
    Tensor(p).mul_(5);
  }
  average.update();
  const std::vector<double> weights{5, 5, 5}, means = average.means()[0].to_vector<double>();
  CHECK(means[0] == Approx(0.1 * 1 + 0.9 * 5));
  {
    const optim::WeightAverage::Applied applied(average);
    CHECK(p.to_vector<double>() == means);
    CHECK(average.means()[0].to_vector<double>() == weights);
  }
  CHECK(p.to_vector<double>() == weights);
  CHECK(average.means()[0].to_vector<double>() == means);
}

TEST_CASE("WeightAverage resumes to the same bits", "[optim]") {
  const Tensor p = ones({40000}).requires_grad_();  // more than one chunk
  optim::WeightAverage through({p}, 0.7), first({p}, 0.7);
  auto step = [&](std::initializer_list<optim::WeightAverage*> averages) {
    const NoGrad no_grad;
    Tensor(p).mul_(1.25);
    for (optim::WeightAverage* a : averages) a->update();
  };
  for (int i = 0; i < 4; ++i) step({&through, &first});
  optim::WeightAverage second({p}, 0.7);
  second.load_state_dict(first.state_dict());
  for (int i = 0; i < 4; ++i) step({&through, &second});
  CHECK_THROWS_WITH(
      second.load_state_dict({{"updates", tensor({-1}, int64)}, {"mean.0", zeros({40000})}}),
      "WeightAverage: expected counts from 0 to 2^53 in updates, got -1");
  CHECK(golden::same(through.means()[0], second.means()[0]));
  CHECK_THROWS_WITH(second.load_state_dict({{"updates", ones({1}, int64)}}), Contains("mean.0"));
}

TEST_CASE("WeightAverage refuses bad decays and parameters", "[optim]") {
  const Tensor p = ones({2}).requires_grad_();
  CHECK_THROWS_WITH(optim::WeightAverage({p}, 1), Contains("decay < 1"));
  CHECK_THROWS_WITH(optim::WeightAverage({p}, -0.1), Contains("decay"));
  CHECK_THROWS_WITH(optim::WeightAverage({p, p}), Contains("listed twice"));
  CHECK_THROWS_WITH(optim::WeightAverage({ones({2}, int64)}), Contains("float32 or float64"));
  CHECK_THROWS_WITH(optim::WeightAverage({Tensor()}), Contains("parameter 0"));
  CHECK_THROWS_WITH(optim::WeightAverage({p, ones({2, 3}).mT()}),
                    Contains("parameter 1: expected a contiguous tensor"));
}

TEST_CASE("WeightAverage leaves out compressed parameters", "[optim]") {
  nn::Linear layer(32, 4);
  layer.to(int8);
  optim::WeightAverage average(layer.parameters(), 0);
  REQUIRE(average.means().size() == 1);
  CHECK(average.state_dict().size() == 2);
  const NoGrad no_grad;
  Tensor(layer.bias).fill_(3);
  average.update();
  CHECK(golden::difference(average.means()[0], full({4}, 3)) < 1e-6);
}

TEST_CASE("WeightAverage: with decay 0 the means are the weights", "[optim]") {
  const Tensor p = tensor({1, 2}), q = tensor({3}, float64), large = tensor({1e8, -3e4});
  optim::WeightAverage average({p, q, large}, 0);
  p.add_(tensor({4, 8})), q.mul_(2), large.copy_(tensor({1.25, 0.1}));
  average.update();
  CHECK(average.means()[0].to_vector<double>() == std::vector<double>{5, 10});
  CHECK(average.means()[1].item() == 6);
  CHECK(golden::same(average.means()[2], large));
}

TEST_CASE("WeightAverage refuses a parameter converted since, and backward one exchanged since",
          "[optim]") {
  nn::Linear layer(2, 2);
  optim::WeightAverage average({layer.weight});
  const Tensor loss = sum(layer.weight * layer.weight);
  { const optim::WeightAverage::Applied applied(average); }
  CHECK_THROWS_WITH(loss.backward(), Contains("changed in place"));
  layer.to(float64);
  CHECK_THROWS_WITH(average.update(), "WeightAverage: parameter 0 has become float64");
}

TEST_CASE("WeightAverage: backward refuses a graph of means that have changed since", "[optim]") {
  const Tensor p = tensor({1, 2}).requires_grad_();
  optim::WeightAverage average({p}, 0.5);
  const Tensor before_update = sum(p * average.means()[0]);
  average.update();
  CHECK_THROWS_WITH(before_update.backward(), Contains("changed in place"));
  const Tensor x = tensor({1, 2}).requires_grad_(), before_swap = sum(x * average.means()[0]);
  { const optim::WeightAverage::Applied applied(average); }
  CHECK_THROWS_WITH(before_swap.backward(), Contains("changed in place"));
}

TEST_CASE("WeightAverage: while an Applied exists, no other, no update and no state", "[optim]") {
  static_assert(!std::is_copy_constructible_v<optim::WeightAverage>);
  static_assert(!std::is_copy_assignable_v<optim::WeightAverage>);
  const Tensor p = tensor({1, 2});
  optim::WeightAverage average({p}, 0.5);
  const NamedTensors state{{"updates", tensor({3}, int64)}, {"mean.0", tensor({8, 9})}};
  p.fill_(10);
  const std::string error =
      "WeightAverage: expected no Applied, which swaps the weights and the means, but one exists";
  {
    const optim::WeightAverage::Applied applied(average);
    CHECK_THROWS_WITH(optim::WeightAverage::Applied(average), error);
    CHECK_THROWS_WITH(average.update(), error);
    CHECK_THROWS_WITH(average.state_dict(), error);
    CHECK_THROWS_WITH(average.load_state_dict(state), error);
    CHECK(p.to_vector<int>() == std::vector<int>{1, 2});
  }
  CHECK(p.to_vector<int>() == std::vector<int>{10, 10});
  CHECK(average.state_dict()[0].second.item<int>() == 0);
  CHECK(average.means()[0].to_vector<int>() == std::vector<int>{1, 2});
  average.load_state_dict(state);
  optim::WeightAverage moved = std::move(average);
  CHECK(moved.state_dict()[0].second.item<int>() == 3);
  const optim::WeightAverage::Applied applied(moved);
  CHECK(p.to_vector<int>() == std::vector<int>{8, 9});
}

TEST_CASE("WeightAverage refuses parameters that share memory, but not parts of one tensor",
          "[optim]") {
  const Tensor p = ones({4});
  CHECK_THROWS_WITH(
      optim::WeightAverage({p, p.detach()}),
      "WeightAverage: parameter 1 of shape (4,) shares memory with parameter 0 of shape (4,)");
  CHECK_THROWS_WITH(optim::WeightAverage({p.slice(0, 0, 3), p.slice(0, 2)}),
                    Contains("parameter 1 of shape (2,) shares memory"));
  CHECK_NOTHROW(optim::WeightAverage({p.slice(0, 0, 2), p.slice(0, 2)}));
}

}  // namespace weight_average_test
