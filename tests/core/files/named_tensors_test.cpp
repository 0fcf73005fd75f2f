#include "gradus/core/files/named_tensors.h"

#include <catch2/catch.hpp>

#include "gradus/core/ops/pointwise.h"
#include "gradus/nn/module.h"
#include "gradus/optim/optim.h"

namespace named_tensors_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

std::vector<int> numbers(const Tensor& t) { return t.to_vector<int>(); }

struct Square : nn::Module {
  Tensor weight = param("weight", tensor({{1, 2}, {3, 4}}));
};

}  // namespace

TEST_CASE("load_named: a module loads its own weight transposed", "[named_tensors]") {
  Square module;
  module.load_state_dict({{"weight", module.weight.detach().mT()}});
  CHECK(numbers(module.weight) == std::vector<int>{1, 3, 2, 4});
}

TEST_CASE("load_named: two tensors can swap values, and three can rotate them", "[named_tensors]") {
  const Tensor a = tensor({1, 2}), b = tensor({3, 4}), c = tensor({5, 6});
  load_named("load", {{"a", a}, {"b", b}}, {{"a", b}, {"b", a}});
  CHECK(numbers(a) == std::vector<int>{3, 4});
  CHECK(numbers(b) == std::vector<int>{1, 2});
  load_named("load", {{"a", a}, {"b", b}, {"c", c}}, {{"a", b}, {"b", c}, {"c", a}});
  CHECK(numbers(a) == std::vector<int>{1, 2});
  CHECK(numbers(b) == std::vector<int>{5, 6});
  CHECK(numbers(c) == std::vector<int>{3, 4});
}

TEST_CASE("load_named: overlapping slices of one storage are loaded as if copied first",
          "[named_tensors]") {
  const Tensor all = arange(0, 8, 1, float32);
  auto slice = [&](int64_t start) { return all.slice(0, start, start + 4); };
  load_named("load", {{"low", slice(0)}, {"high", slice(4)}},
             {{"low", slice(3)}, {"high", slice(2)}});
  CHECK(numbers(all) == std::vector<int>{3, 4, 5, 6, 2, 3, 4, 5});
  load_named("load", {{"all", all}}, {{"all", all[2].expand({8})}});
  CHECK(numbers(all) == std::vector<int>(8, 5));
}

TEST_CASE("load_named: an optimiser's moments can be swapped", "[named_tensors]") {
  const Tensor p = tensor({1, 2}).requires_grad_(), q = tensor({3, 4}).requires_grad_();
  optim::SGD sgd(std::vector<Tensor>{p, q}, {.lr = 0.1, .momentum = 0.9});
  p.set_grad(tensor({10, 20}));
  q.set_grad(tensor({30, 40}));
  sgd.step();
  NamedTensors state = sgd.state_dict();
  REQUIRE(state.size() == 3);  // the step, and a moment per parameter
  REQUIRE(numbers(state[1].second) == std::vector<int>{10, 20});
  REQUIRE(numbers(state[2].second) == std::vector<int>{30, 40});
  std::swap(state[1].second, state[2].second);
  sgd.load_state_dict(state);
  const NamedTensors after = sgd.state_dict();
  CHECK(numbers(after[1].second) == std::vector<int>{30, 40});
  CHECK(numbers(after[2].second) == std::vector<int>{10, 20});
}

TEST_CASE("load_named: a state that shares no memory, or is the target itself, is not cloned",
          "[named_tensors]") {
  const Tensor a = ones({1000}), b = zeros({1000}), other = full({1000}, 7);
  reset_peak_memory();
  const int64_t before = memory_stats().peak;
  load_named("load", {{"a", a}, {"b", b}}, {{"a", a.detach()}, {"b", other}});
  CHECK(memory_stats().peak == before);
  CHECK(numbers(a) == std::vector<int>(1000, 1));
  CHECK(numbers(b) == std::vector<int>(1000, 7));
}

TEST_CASE("load_named: views of compressed tensors are refused, with nothing changed",
          "[named_tensors][compression]") {
  const Tensor a = zeros({2}), half = ones({3, 2}).to(bfloat16), whole = ones({3, 64}).to(int8);
  const auto refused = [&](const Tensor& to, const Tensor& from, const std::string& which) {
    CHECK_THROWS_WITH(load_named("load", {{"a", a}, {"w", to}}, {{"a", ones({2})}, {"w", from}}),
                      "load: w" + which + " tensor, got a view");
    CHECK(numbers(a) == std::vector<int>{0, 0});
  };
  refused(half.mT(), ones({2, 3}).to(bfloat16), " in the target: expected a whole bfloat16");
  refused(ones({2, 3}).to(bfloat16), half.mT(), ": expected a whole bfloat16");
  refused(whole.slice(0, 1, 3), ones({2, 64}).to(int8), " in the target: expected a whole int8");
  refused(ones({2, 64}).to(int8), whole.slice(0, 1, 3), ": expected a whole int8");
  load_named("load", {{"w", whole}}, {{"w", zeros({3, 64}).to(int8)}});
  CHECK(numbers(whole.to(float32)) == std::vector<int>(192, 0));
}

TEST_CASE("load_named: an expanded target is refused, with nothing changed", "[named_tensors]") {
  const Tensor a = zeros({2}), wide = zeros({1}).expand({2});
  CHECK_THROWS_WITH(
      load_named("load", {{"a", a}, {"b", wide}}, {{"a", ones({2})}, {"b", ones({2})}}),
      "load: b in the target is an expanded tensor");
  CHECK(numbers(a) == std::vector<int>{0, 0});
}

TEST_CASE("load_named: a long message is abridged", "[named_tensors]") {
  const Tensor x = ones({1});
  NamedTensors many;
  for (int i = 0; i < 1000; ++i) many.emplace_back("name." + std::to_string(i), x.clone());
  many.emplace_back(std::string(100'000, 'n'), x.clone());
  many.emplace_back("bell\a", x.clone());
  std::string message;
  try {
    load_named("load", many, {{std::string(100'000, 'u'), x}});
  } catch (const Error& e) {
    message = e.what();
  }
  CHECK(message.size() < 2000);
  CHECK_THAT(message, Contains("load: the names or shapes differ; missing: name.0, name.1, ") &&
                          Contains(" and 992 more; unexpected: uuu"));
  CHECK_THROWS_WITH(load_named("load", {{"bell\a", x}}, {}), Contains("missing: bell\\u0007"));
}

TEST_CASE("load_named: mismatched shapes throw even if not strict", "[named_tensors]") {
  const Tensor a = zeros({2}), b = zeros({3});
  const NamedTensors target{{"a", a}, {"b", b}};
  const auto load = [&](const NamedTensors& state) { load_named("load", target, state, false); };
  CHECK_THROWS_WITH(load({{"a", ones({2})}, {"a", ones({2})}}),
                    "load: the names or shapes differ; given twice: a");
  CHECK_THROWS_WITH(load({{"a", ones({2})}, {"x", ones({1})}, {"b", ones({3}, float64)}}),
                    "load: the names or shapes differ; mismatched: b (expected float32 (3,), got "
                    "float64 (3,))");
  CHECK_THROWS_WITH(load({{"a", ones({2})}, {"b", Tensor()}}),
                    Contains("b (expected float32 (3,), got an undefined tensor)"));
  CHECK(numbers(a) == std::vector<int>{0, 0});
  load({{"x", ones({1})}, {"b", ones({3})}});
  CHECK(numbers(a) == std::vector<int>{0, 0});
  CHECK(numbers(b) == std::vector<int>{1, 1, 1});
  NamedTensors ten;
  for (int i = 0; i < 10; ++i) ten.emplace_back(std::to_string(i), ones({1}));
  CHECK_THROWS_WITH(load_named("load", ten, {}),
                    Contains("missing: 0, 1, ") && Contains(", 9") && !Contains("more"));
  ten.emplace_back("10", ones({1}));
  CHECK_THROWS_WITH(load_named("load", ten, {}), Contains(", 9 and 1 more"));
}

}  // namespace named_tensors_test
