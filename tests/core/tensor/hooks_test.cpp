// Hooks and retain_grad: when hooks run, and what they see and change.

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/core/tensor/autograd_test.h"

namespace hooks_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

TEST_CASE("hooks see the whole gradient and may replace it", "[autograd]") {
  const Tensor x = leaf({1, 2});
  std::vector<Values> seen;
  const int64_t id = x.register_hook([&](const Tensor& g) {
    seen.push_back(values(g));
    CHECK_FALSE(grad_enabled());
    return Tensor();
  });
  x.register_hook([](const Tensor& g) { return g * 10.0; });
  (sum(x * 3.0) + sum(x)).backward();
  CHECK(seen == std::vector<Values>{{4, 4}});  // once, both uses added up
  CHECK(values(x.grad()) == Values{40, 40});
  sum(x).backward();
  CHECK(values(x.grad()) == Values{50, 50});  // applied to the pass's gradient, not to the sum
  CHECK(values(grad({sum(x)}, {x})[0]) == Values{10, 10});
  x.remove_hook(id);
  x.remove_hook(id);
  sum(x).backward();
  CHECK(seen.size() == 3);
}

TEST_CASE("a hook may write to its gradient, also to one that an op expanded", "[autograd]") {
  const Tensor x = leaf({1, 2, 3}), y = leaf({1, 2, 3});
  for (const Tensor& t : {x, y})
    t.register_hook([](const Tensor& g) {
      g[0].mul_(6);
      return Tensor();
    });
  mean(x).backward();
  (sum(y) * 0.5).backward();
  CHECK(values(x.grad()) == Values{2, 1.0 / 3, 1.0 / 3});
  CHECK(values(y.grad()) == Values{3, 0.5, 0.5});
}

TEST_CASE("hooks on tensors inside the graph", "[autograd]") {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 2.0;
  int calls = 0;
  int64_t id = 0;
  id = h.register_hook([&](const Tensor& g) {  // this hook removes itself
    ++calls;
    h.remove_hook(id);
    return g * 5.0;
  });
  const Tensor y = sum(h) + sum(h);
  y.backward({}, true);
  CHECK(values(x.grad()) == Values{20, 20});
  y.backward({}, true);
  CHECK(values(x.grad()) == Values{24, 24});
  CHECK(calls == 1);
  h.register_hook([](const Tensor& g) { return g * -1.0; });
  CHECK(values(grad({y}, {h}, {.retain_graph = true})[0]) == Values{-2, -2});

  const auto pieces = x.split(1, 0);  // hooks on one of an op's several outputs
  pieces[1].register_hook([](const Tensor& g) { return g * 7.0; });
  x.set_grad({});
  sum(pieces[0] + pieces[1]).backward();
  CHECK(values(x.grad()) == Values{1, 7});

  // Under create_graph a hook's ops are part of the gradient's graph.
  const Tensor z = leaf({3});
  z.register_hook([](const Tensor& g) { return g * g; });
  const Tensor d = grad({z * z}, {z}, {.create_graph = true})[0];
  CHECK(d.item() == 36);
  CHECK(d.requires_grad());
}

TEST_CASE("hooks are called in the order of their registration", "[autograd]") {
  const Tensor x = leaf({1, 2}), made = leaf({1, 2}) * 1.0;
  for (const Tensor& t : {x, made}) {
    t.register_hook([](const Tensor& g) { return g * 2.0; });
    t.register_hook([](const Tensor&) { return Tensor(); });
    t.register_hook([](const Tensor& g) { return g + 1.0; });
    CHECK(values(grad({sum(t * 5.0)}, {t})[0]) == Values{11, 11});
  }
  x.register_hook([](const Tensor& g) { return g.to(float32); });
  CHECK_THROWS_WITH(sum(x).backward(),
                    "hook: expected a gradient of float64 (2,), got float32 (2,)");
}

TEST_CASE("a hook sees what kernels add in place, but not gradients of earlier passes",
          "[autograd]") {
  const Tensor w = tensor({{1, 2}, {3, 4}}, float64).requires_grad_();
  const Tensor x = tensor({{5, 6}}, float64), ids = tensor({0, 0, 1}, int64);
  std::vector<Values> seen;
  w.register_hook([&](const Tensor& g) {
    seen.push_back(values(g));
    return g * 10.0;
  });
  const Values expected{5 + 5 + 2, 5 + 6 + 2, 6 + 5 + 1, 6 + 6 + 1};
  Values stored(4);
  for (int pass = 1; pass <= 3; ++pass) {
    // dw of the terms: x in each row, x in each column, and how often each row is selected.
    (sum(linear(x, w)) + sum(matmul(x, w)) + sum(embedding(w, ids))).backward();
    for (double& g : stored) g = 0;
    for (size_t i = 0; i < 4; ++i) stored[i] = pass * 10 * expected[i];
    CHECK(values(w.grad()) == stored);
  }
  CHECK(seen == std::vector<Values>{expected, expected, expected});
}

TEST_CASE("a stored gradient carries no graph, whatever a hook returns", "[autograd]") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  x.register_hook([&](const Tensor& g) {
    const GradMode on(true);
    return g * w;
  });
  for (int pass = 0; pass < 2; ++pass) {
    sum(x).backward();
    CHECK_FALSE(x.grad().requires_grad());
  }
  CHECK(values(x.grad()) == Values{6, 8});
  const Tensor y = leaf({1, 2});
  y.register_hook([&](const Tensor&) { return w; });
  sum(y).backward();
  CHECK_FALSE(y.grad().requires_grad());
  CHECK(y.grad().impl().storage != w.impl().storage);
}

TEST_CASE("the hook of an output that gets no gradient is not called", "[autograd]") {
  const Tensor x = leaf({1, 2});
  const auto pieces = x.split(1, 0);
  int calls = 0;
  pieces[1].register_hook([&](const Tensor& g) {
    ++calls;
    return g;
  });
  sum(pieces[0]).backward();
  CHECK(calls == 0);
  CHECK(values(x.grad()) == Values{1, 0});
}

TEST_CASE("a hook keeps its own state from pass to pass", "[autograd]") {
  const Tensor x = leaf({1, 2});
  std::vector<int> seen;
  x.register_hook([&seen, calls = 0](const Tensor&) mutable {
    seen.push_back(++calls);
    return Tensor();
  });
  for (int pass = 0; pass < 3; ++pass) sum(x * x).backward();
  CHECK(seen == std::vector<int>{1, 2, 3});
}

TEST_CASE("a hook that writes to its gradient changes no tensor of an earlier hook", "[autograd]") {
  const Tensor x = leaf({1, 2}), y = leaf({1, 2}), returned = tensor({5, 5}, float64);
  Tensor kept;
  x.register_hook([&](const Tensor&) { return returned; });
  y.register_hook([&](const Tensor& g) {
    kept = g;
    return Tensor();
  });
  for (const Tensor& t : {x, y})
    t.register_hook([](const Tensor& g) {
      g.mul_(100);
      return Tensor();
    });
  sum(x * x + y * y).backward();
  CHECK(values(returned) == Values{5, 5});
  CHECK(values(x.grad()) == Values{500, 500});
  CHECK(values(kept) == Values{2, 4});
  CHECK(values(y.grad()) == Values{200, 400});
}

TEST_CASE("hooks: errors", "[autograd]") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH(tensor({1}).register_hook([](const Tensor& g) { return g; }),
                    "register_hook: the tensor does not require grad");
  CHECK_THROWS_WITH(x.register_hook(nullptr), "register_hook: the hook is empty");
  x.register_hook([](const Tensor& g) { return g[0]; });
  CHECK_THROWS_WITH(sum(x).backward(), "hook: expected a gradient of float64 (2,), got float64 ()");
}

TEST_CASE("a hook or a rule may run another backward pass", "[autograd]") {
  const Tensor x = leaf({2}), inner = leaf({5});
  x.register_hook([&](const Tensor&) {
    const GradMode on(true);
    (inner * inner).backward();
    return Tensor();
  });
  (x * x).backward();
  CHECK(x.grad().item() == 4);
  CHECK(inner.grad().item() == 10);
}

// ---- hooks of leaves run during the pass ----

namespace {

using Log = std::vector<std::string>;

/// x * factor, by an op whose rule logs its name.
Tensor logged(const char* name, const Tensor& x, double factor, Log& log) {
  const Tensor y = x.detach() * factor;
  record(name, {y}, {x}, saves_nothing, [name, factor, &log](Backward& b) {
    log.push_back(name);
    b.give(0, b.grad() * factor);
  });
  return y;
}

/// Logs `name` when x's hooks run.
void log_hook(const char* name, const Tensor& x, Log& log) {
  x.register_hook([name, &log](const Tensor&) {
    log.push_back(name);
    return Tensor();
  });
}

}  // namespace

TEST_CASE("a leaf's hook runs before the rules of earlier layers", "[autograd]") {
  const Tensor x = randn({4, 3}, float64);
  const Tensor w1 = randn({5, 3}, float64).requires_grad_();
  const Tensor w2 = randn({2, 5}, float64).requires_grad_();
  const auto loss = [&](Log& log) {
    const Tensor h = logged("first layer", linear(x, w1), 1, log);
    return sum(logged("second layer", linear(tanh(h), w2), 1, log));
  };
  Log log;
  loss(log).backward();
  const Values dw1 = values(w1.grad()), dw2 = values(w2.grad());
  for (const Tensor& w : {w1, w2}) w.set_grad({});

  log.clear();
  bool first_done = true, second_done = false;
  w2.register_hook([&](const Tensor& g) {
    log.push_back("w2");
    CHECK(values(g) == dw2);
    return Tensor();
  });
  w1.register_hook([&](const Tensor&) {
    log.push_back("w1");
    first_done = w1.grad().defined();
    second_done = w2.grad().defined();
    return Tensor();
  });
  loss(log).backward();
  CHECK(log == Log{"second layer", "w2", "first layer", "w1"});
  CHECK_FALSE(first_done);
  CHECK(second_done);  // accumulated right after its hooks
  CHECK(values(w1.grad()) == dw1);
  CHECK(values(w2.grad()) == dw2);

  log.clear();
  const auto g = grad({loss(log)}, {w1, w2});
  CHECK(log == Log{"second layer", "w2", "first layer", "w1"});
  CHECK(values(g[0]) == dw1);
  CHECK(values(g[1]) == dw2);
}

TEST_CASE("a leaf's hook waits for the rule of the op that used the leaf first", "[autograd]") {
  Log log;
  const Tensor tied = leaf({1, 2}), last = leaf({3, 4});
  log_hook("tied", tied, log);
  log_hook("last", last, log);
  const Tensor a = logged("a", tied, 2, log), b = logged("b", a, 3, log);
  const Tensor y = sum(logged("c", b + tied + last, 1, log));
  y.backward({}, true);
  CHECK(log == Log{"c", "last", "b", "a", "tied"});
  CHECK(values(tied.grad()) == Values{7, 7});
  log.clear();
  grad({y}, {b, last}, {.retain_graph = true});  // tied's gradient is not requested
  CHECK(log == Log{"c", "last"});
  log.clear();
  grad({y}, {tied}, {.create_graph = true});
  CHECK(log == Log{"c", "b", "a", "tied"});

  log.clear();  // the first output is a leaf that the second one leads to
  grad({last, sum(logged("d", last, 5, log))}, {last},
       {.grad_outputs = {last, scalar(1, float64)}});
  CHECK(log == Log{"d", "last"});
  log.clear();
  last.backward(ones({2}, float64));
  CHECK(log == Log{"last"});
}

TEST_CASE("a leaf's gradient is complete although an op that uses the leaf gets no gradient",
          "[autograd]") {
  Log log;
  const Tensor x = leaf({1, 2}), z = leaf({3, 4});
  log_hook("x", x, log);
  log_hook("z", z, log);
  const Tensor early = logged("early", x * 1.0, 1, log), low = logged("low", z, 1, log);
  const Tensor silent = identity("silent", early, saves_nothing, [](Backward&) {});
  const Tensor y = logged("y", low + x, 1, log);
  sum(silent + y).backward();
  CHECK(log == Log{"y", "low", "z", "x"});
  CHECK(values(x.grad()) == Values{1, 1});
}

TEST_CASE("a leaf's hook may update the leaf and free its gradient", "[autograd]") {
  const Tensor x = randn({8, 1000}), w1 = randn({1000, 1000}).requires_grad_();
  const Tensor w2 = randn({1000, 1000}).requires_grad_();
  const auto expected = grad({sum(linear(tanh(linear(x, w1)), w2))}, {w1, w2});
  const std::vector<Values> before{values(w1), values(w2)};
  const auto update = [](const Tensor& w) {
    return [w = w.detach()](const Tensor& g) {
      w.add_(g, -0.5);
      return Tensor();
    };
  };
  w1.register_hook(update(w1));
  w2.register_hook(update(w2));
  sum(linear(tanh(linear(x, w1)), w2)).backward();
  CHECK(values(w1.grad()) == values(expected[0]));  // w2 was still as in the forward pass
  CHECK(values(w2.grad()) == values(expected[1]));
  CHECK(values(w1) != before[0]);
  CHECK(values(w2) != before[1]);
}

TEST_CASE("if a hook throws, leaves that were complete before it have their gradients",
          "[autograd]") {
  const Tensor early = leaf({1, 2}), late = leaf({3, 4});
  const Tensor y = sum((early * 2.0) * late);
  late.register_hook([](const Tensor&) { return Tensor(); });
  const int64_t id = early.register_hook([](const Tensor&) -> Tensor { fail("from the hook"); });
  CHECK_THROWS_WITH(y.backward(), "from the hook");
  CHECK(grad_enabled());
  CHECK(values(late.grad()) == Values{2, 4});
  CHECK_FALSE(early.grad().defined());
  early.remove_hook(id);
  sum(early * late).backward();
  CHECK(values(late.grad()) == Values{3, 6});
  CHECK(values(early.grad()) == Values{3, 4});
}

TEST_CASE("a hook may run a backward pass that reaches the same leaf", "[autograd]") {
  const Tensor x = leaf({2}), y = x * 3.0;
  int depth = 0;
  x.register_hook([&](const Tensor&) {
    ++depth;
    return Tensor();
  });
  y.register_hook([&](const Tensor&) {
    if (depth == 0) {
      const GradMode on(true);
      (x * 10.0).backward();
    }
    return Tensor();
  });
  y.backward();
  CHECK(depth == 2);
  CHECK(x.grad().item() == 13);
}

TEST_CASE("hooks of leaves are called in the order in which gradients become complete") {
  std::vector<Tensor> leaves;
  std::vector<int> order;
  for (int i = 0; i < 20; ++i) {
    leaves.push_back(ones({i + 1}).requires_grad_());
    leaves.back().register_hook([&order, i](const Tensor& g) {
      order.push_back(i);
      return g;
    });
  }
  Tensor y = scalar(0);
  for (const Tensor& leaf : leaves) y = y + sum(leaf * 2.0);
  y.backward();  // the pass begins with the op recorded last
  std::vector<int> backwards(20);
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  CHECK(order == backwards);
}

// ---- life ----

TEST_CASE("a chain whose hooks keep earlier tensors is freed in a loop, not by recursion") {
  const Tensor x = ones({1}).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 200'000; ++i) {
    const Tensor before = y;
    y = y * 1.0;
    y.register_hook([before](const Tensor& g) { return g; });
  }
  y = {};
  CHECK(sum(x).item() == 1);
}

// ---- retain_grad ----

TEST_CASE("retain_grad: a non-leaf keeps its gradient") {
  const int64_t before = memory_stats().live;
  {
    const Tensor x = leaf({1, 2}), h = x * 3.0, other = x * 1.0;
    h.retain_grad();
    h.retain_grad();  // calling it twice is the same as once
    CHECK(!h.grad().defined());
    const Tensor y = sum(h * h);
    y.backward({}, true);
    CHECK(values(h.grad()) == Values{6, 12});
    CHECK(values(x.grad()) == Values{18, 36});
    CHECK(!other.grad().defined());
    CHECK(!h.grad().requires_grad());
    CHECK(h.is_leaf() == false);
    const Tensor copy = h;  // the same tensor
    (sum(h) * 2.0 + y).backward();
    CHECK(values(copy.grad()) == Values{14, 26});
    h.set_grad({});
    CHECK(!copy.grad().defined());
  }
  {
    const Tensor x = leaf({1, 2}), h = x * 3.0, y = sum(h) + sum(h);
    h.retain_grad(), y.retain_grad();
    h.register_hook([](const Tensor& g) { return g * 10.0; });
    y.backward();
    CHECK(values(y.grad()) == Values{1});
    CHECK(values(h.grad()) == Values{20, 20});  // after the hook, and a sum of both uses
    h.grad().mul_(0);                           // the gradient has its own memory
    CHECK(values(x.grad()) == Values{60, 60});
  }
  {  // several outputs; grad() does not write to .grad
    const Tensor x = leaf({1, 2, 3}), z = x * 1.0;
    const auto pieces = z.split(Shape{1, 2}, 0);
    pieces[1].retain_grad(), z.retain_grad();
    const Tensor y = sum(pieces[1] * pieces[1]);
    CHECK(values(grad({y}, {x}, {.retain_graph = true})[0]) == Values{0, 4, 6});
    CHECK(!pieces[1].grad().defined());
    y.backward();
    CHECK(values(pieces[1].grad()) == Values{4, 6});
    CHECK(values(z.grad()) == Values{0, 4, 6});
  }
  CHECK(memory_stats().live == before);
  const Tensor x = leaf({1});
  x.retain_grad();  // a leaf has its gradient anyway
  (x * 2.0).backward();
  CHECK(values(x.grad()) == Values{2});
  CHECK_THROWS_WITH(ones({2}).retain_grad(), "retain_grad: the tensor does not require grad");
}

}  // namespace hooks_test
