// Custom ops, the memory that rules may overwrite, and AnomalyMode.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/debug/gradcheck.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/reuse.h"
#include "tests/core/tensor/autograd_test.h"

namespace autograd_rules_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::internal;
using namespace gradus::testing;
using Catch::Matchers::Contains;

TEST_CASE("a custom op: several inputs and outputs, gradients only where needed", "[autograd]") {
  // (a, b) -> (a b, a + b, the sign's index)
  std::vector<std::string> log;
  auto op = [&log](const Tensor& a, const Tensor& b) {
    const Tensor x = a.detach(), y = b.detach();
    const std::vector<Tensor> out{x * y, x + y, gt(x, y).to(int64)};
    record("pair", out, {a, b}, saves_inputs, [&log](Backward& back) {
      const Tensor product = back.grad(0), total = back.grad(1);  // perhaps zeros
      log.push_back(std::string(back.has_grad(0) ? "0" : "") + (back.has_grad(1) ? "1" : "") +
                    (back.needs(0) ? "a" : "") + (back.needs(1) ? "b" : ""));
      if (back.needs(0)) back.give(0, product * back.input(1) + total);
      if (back.needs(1)) back.give(1, product * back.input(0) + total);
    });
    return out;
  };
  const Tensor a = leaf({2, 3}), b = leaf({5, 7});
  const auto out = op(a, b);
  CHECK(out[0].requires_grad());
  CHECK_FALSE(out[2].requires_grad());
  (sum(out[0]) + sum(out[1])).backward();
  CHECK(values(a.grad()) == Values{6, 8});
  CHECK(values(b.grad()) == Values{3, 4});
  sum(op(a, b.detach())[1]).backward();
  CHECK(values(a.grad()) == Values{7, 9});
  CHECK(values(grad({sum(op(a, b)[0])}, {b})[0]) == Values{2, 3});
  CHECK(log == std::vector<std::string>{"01ab", "1a", "0b"});
  CHECK(gradcheck([&](const std::vector<Tensor>& in) { return op(in[0], in[1]); }, {a, b}));
  CHECK(gradgradcheck([&](const std::vector<Tensor>& in) { return op(in[0], in[1]); }, {a, b}));
}

TEST_CASE("a custom op may have more inputs and outputs than a mask has bits", "[autograd]") {
  constexpr int count = 40;
  std::vector<Tensor> inputs;
  for (int i = 0; i < count; ++i) inputs.push_back(leaf({i + 1.0}));
  auto squares = [&](Saves saves, auto rule) {
    std::vector<Tensor> out;
    for (const Tensor& x : inputs) out.push_back(x.detach() * x.detach());
    record("squares", out, inputs, saves, rule);
    Tensor total = out[0];
    for (size_t i = 1; i < out.size(); ++i) total = total + out[i];
    return total;
  };
  squares(saves_inputs, [](Backward& b) {
    for (int i = 0; i < count; ++i) b.give(i, b.grad(i) * b.input(i) * 2.0);
  }).backward();
  for (int i = 0; i < count; ++i) CHECK(inputs[static_cast<size_t>(i)].grad().item() == 2 * i + 2);
  squares(saves_output, [](Backward& b) {
    for (int i = 0; i < count; ++i) b.give(i, b.grad(i) * sqrt(b.output(i)) * 2.0);
  }).backward();
  for (int i = 0; i < count; ++i)
    CHECK(inputs[static_cast<size_t>(i)].grad().item() == Approx(4 * i + 4));
  for (int kept : {31, 32, 39})  // 31 and above: all from 31 on
    squares(saves_input(kept), [](Backward& b) {
      for (int i = 31; i < count; ++i) CHECK(b.input(i).item() == i + 1);
    }).backward();
  for (int i : {1, 31, 32, 39})
    CHECK_THROWS_WITH(squares(saves_input(0), [i](Backward& b) { b.input(i); }).backward(),
                      "squares: backward: input " + std::to_string(i) + " was not saved");
}

TEST_CASE("a rule that breaks its contract throws", "[autograd]") {
  const Tensor x = leaf({1, 2});
  auto run = [&](auto rule) { sum(identity("mine", x, saves_nothing, rule)).backward(); };
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, ones({3}, float64)); }),
                    "mine: backward: expected a gradient of float64 (2,) for input 0, got float64 "
                    "(3,)");
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, ones({2})); }),
                    "mine: backward: expected a gradient of float64 (2,) for input 0, got float32 "
                    "(2,)");
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, {}); }), Contains("got nothing"));
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.input(0)); }),
                    "mine: backward: input 0 was not saved");
  CHECK_THROWS_WITH(run([](Backward& b) { b.give(0, b.output()); }),
                    "mine: backward: output 0 was not saved");
  CHECK_FALSE(x.grad().defined());
  run([](Backward& b) {
    for (int i = 0; i < 3; ++i) b.give(0, b.grad());
  });
  CHECK(values(x.grad()) == Values{3, 3});

  Tensor y = x * 2.0;
  CHECK_THROWS_WITH(record("mine", {y}, {x}, saves_nothing, [](Backward&) {}),
                    "mine: record: output 0 is part of a graph already");
  const Tensor fresh = ones({2}, float64);
  CHECK_THROWS_WITH(record("mine", {fresh, y}, {x}, saves_nothing, [](Backward&) {}),
                    "mine: record: output 1 is part of a graph already");
  CHECK_FALSE(fresh.requires_grad());
  CHECK_THROWS_WITH(record("mine", {fresh, fresh}, {x}, saves_nothing, [](Backward&) {}),
                    "mine: record: output 1 is listed twice");
}

TEST_CASE("a composed form that returns fewer or more outputs than its op throws", "[autograd]") {
  const Tensor x = leaf({1, 2});
  auto loss = [&](size_t count) {
    const Tensor squared = (x * x).detach(), tripled = (x * 3.0).detach();
    record_fused(
        "two", {squared, tripled}, {x}, saves_nothing,
        [count](auto& in) {
          std::vector<Tensor> all{in[0] * in[0], in[0] * 3.0, in[0]};
          all.resize(count);
          return all;
        },
        [](Backward& b) { b.give(0, b.grad(0) * b.input(0) * 2.0 + b.grad(1) * 3.0); });
    return sum(squared) + sum(tripled);
  };
  auto gradient = [&](size_t count, bool create_graph) {
    return values(grad({loss(count)}, {x}, {.create_graph = create_graph})[0]);
  };
  CHECK(gradient(2, false) == Values{5, 7});
  CHECK(gradient(2, true) == Values{5, 7});
  for (const size_t count : {size_t{1}, size_t{3}}) {
    const std::string message =
        "two: expected 2 outputs of the composed form, got " + std::to_string(count);
    CHECK_THROWS_WITH(gradient(count, true), message);
    const ModeScope composed(&Modes::composed, true);
    CHECK_THROWS_WITH(loss(count), message);
  }
}

TEST_CASE("a wrong rule is refused by gradcheck", "[autograd]") {
  const Tensor x = leaf({1, 2});
  auto wrong = [](const std::vector<Tensor>& in) {
    return std::vector{
        identity("wrong", in[0], saves_nothing, [](Backward& b) { b.give(0, b.grad() * 1.01); })};
  };
  const GradcheckResult result = gradcheck(wrong, {x});
  CHECK_FALSE(result.ok);
  CHECK_THAT(result.message,
             Contains("input 0") && Contains("(0,)") && Contains("analytic 1.01, numeric"));
}

TEST_CASE("take_grad and take_input release only what has no other owner", "[autograd]") {
  bool grad_is_ours = false, input_is_ours = false;
  auto taker = [&](const Tensor& x) {
    return identity("taker", x, saves_input(0), [&](Backward& b) {
      const Tensor g = take_grad(b);
      grad_is_ours = g.is_sole_owner();
      input_is_ours = take_input(b, 0).defined();
      b.give(0, g);
    });
  };
  const Tensor x = leaf({1, 2});
  const Tensor fresh = taker(x * 2.0) * 3.0;
  fresh.backward(ones({2}, float64));  // mul's gradient, and an input that only the graph holds
  CHECK(grad_is_ours);
  CHECK(input_is_ours);
  CHECK(values(x.grad()) == Values{6, 6});

  const Tensor given = ones({2}, float64), kept = x * 2.0;
  taker(kept).backward(given);  // the gradient and the input belong to the caller
  CHECK_FALSE(grad_is_ours);
  CHECK_FALSE(input_is_ours);

  const Tensor shared = taker(exp(x)) * 3.0;
  shared.backward(given);  // exp has saved the same storage
  CHECK_FALSE(input_is_ours);
  const Tensor y = taker(x * 2.0) * 3.0;
  y.backward(given, true);  // the graph is kept, and holds its inputs
  CHECK(grad_is_ours);
  CHECK_FALSE(input_is_ours);
  y.backward(given);
  CHECK(input_is_ours);

  const Tensor held = taker(x * 2.0), z = held * 3.0;
  Tensor hooked;
  held.register_hook([&](const Tensor& g) { return hooked = g; });
  z.backward(given);  // a hook holds the gradient
  CHECK_FALSE(grad_is_ours);
  CHECK(values(hooked) == Values{3, 3});
  const Tensor both = taker(x * 2.0);
  grad({both * 3.0}, {both, x}, {.grad_outputs = {given}});  // the pass's result holds the gradient
  CHECK_FALSE(grad_is_ours);
}

TEST_CASE("sum_in_place returns an existing sum that has no other owner", "[autograd]") {
  std::vector<bool> in_place;
  auto adder = [&](const Tensor& x) {
    return identity("adder", x, saves_nothing, [&](Backward& b) {
      const Tensor total = sum_in_place(b, 0);
      in_place.push_back(total.defined());
      if (total.defined())
        total.add_(b.grad());
      else
        b.give(0, b.grad());
    });
  };
  const Tensor x = leaf({1, 2});
  sum(adder(x)).backward();  // there is no sum yet
  sum(adder(x)).backward();
  CHECK(values(x.grad()) == Values{2, 2});
  const Tensor held = x.grad();
  sum(adder(x)).backward();
  CHECK(values(x.grad()) == Values{3, 3});
  CHECK(values(held) == Values{2, 2});
  grad({sum(adder(x) * 2.0 + adder(x) * 3.0)}, {x});  // a pass of grad() has its own sums
  grad({sum(adder(x) * 2.0 + adder(x) * 3.0)}, {x}, {.create_graph = true});
  CHECK(in_place == std::vector<bool>{false, true, false, false, true, false, false});
  CHECK(values(x.grad()) == Values{3, 3});
}

namespace {

/// Checks f's gradient where it is added to a sum that is strided, or that has other owners.
void check_added(const std::function<Tensor(const Tensor&)>& f, const Tensor& start,
                 const Tensor& side) {
  const Tensor alone = start.clone().requires_grad_(), y = f(alone);
  const Tensor dy = randn(y.shape(), float64);
  y.backward(dy);
  const auto same = [](const Tensor& a, const Tensor& b) {
    return norm(a - b).item() <= 1e-12 * norm(b).item();
  };
  {  // the sum so far is a transposed gradient
    const Tensor x = start.clone().requires_grad_(), h = x * 1.0;
    const Tensor first = sum(f(h) * dy);
    (first + sum(exp(h.mT()) * side)).backward();
    CHECK(same(x.grad(), alone.grad() + exp(start) * side.mT()));
  }
  {  // the sum so far is also another tensor's gradient, and the caller's tensor
    const Tensor x = start.clone().requires_grad_(), other = ones({4, 4}, float64);
    const Tensor k = other.requires_grad_(), h = x * 1.0, given = side.clone();
    const Tensor y = f(h), both = h + k * 1.0;
    const auto g = grad({both, y}, {x, k, both}, {.grad_outputs = {given, dy}});
    CHECK(same(g[0], alone.grad() + side));
    CHECK(same(g[1], side));
    CHECK(same(g[2], side));
    CHECK(same(given, side));
  }
  {  // a leaf's stored gradient that the user holds in another layout
    const Tensor x = start.clone().requires_grad_(), stored = side.mT().clone();
    for (const Tensor& earlier : {stored.mT(), scalar(2, float64).expand({4, 4})}) {
      const Tensor before = earlier.clone();
      x.set_grad(earlier);
      f(x).backward(dy);
      CHECK(same(x.grad(), alone.grad() + before));
      CHECK(same(earlier, before));
    }
  }
}

}  // namespace

TEST_CASE("kernels do not add in place to sums that are strided or shared", "[autograd]") {
  manual_seed(7);
  const Tensor w = randn({4, 4}, float64), rows = tensor({0, 2, 2}, int64);
  struct Op {
    const char* name;
    std::function<Tensor(const Tensor& h)> f;
  };
  const std::vector<Op> ops = {
      {"linear, x", [&](const Tensor& h) { return linear(h, w); }},
      {"linear, weight", [&](const Tensor& h) { return linear(w, h); }},
      {"feed_forward, x",
       [&](const Tensor& h) { return feed_forward(h, w, {}, Activation::gelu_tanh, w, {}); }},
      {"feed_forward, second weight",
       [&](const Tensor& h) { return feed_forward(w, w, {}, Activation::relu, h, {}); }},
      {"matmul, left", [&](const Tensor& h) { return matmul(h, w); }},
      {"matmul, right", [&](const Tensor& h) { return matmul(w, h); }},
      {"layer_norm", [](const Tensor& h) { return layer_norm(h); }},
      {"index_select", [&](const Tensor& h) { return index_select(h, 0, rows); }},
      {"embedding", [&](const Tensor& h) { return embedding(h, rows); }},
  };
  const Tensor start = randn({4, 4}, float64), side = randn({4, 4}, float64);
  for (const Op& op : ops) {
    INFO(op.name);
    check_added(op.f, start, side);
  }
}

TEST_CASE("a loop over slices adds their gradients into one sum", "[autograd]") {
  const int64_t T = 64, n = 4096, bytes = T * n * 4;
  const Tensor x = randn({T, n}).requires_grad_();
  Tensor total = zeros({n});
  for (int64_t t = 0; t < T; ++t) total = total + x[t];
  total = sum(total);
  const int64_t live = memory_stats().live;
  reset_peak_memory();
  total.backward();
  // x's gradient is allocated once; a padded gradient per step would need more memory and T times
  // the work.
  CHECK(memory_stats().peak - live < bytes * 3 / 2);
  CHECK(values(x.grad()) == Values(static_cast<size_t>(T * n), 1.0));
  CHECK_FALSE(x.grad().requires_grad());
}

TEST_CASE("a pass that keeps the graph frees each gradient once its op has run", "[autograd]") {
  const int64_t n = 1 << 16, bytes = n * 8;
  const Tensor x = zeros({n}, float64).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = tanh(y);
  y = sum(y);
  const int64_t live = memory_stats().live;
  reset_peak_memory();
  y.backward({}, true);
  CHECK(memory_stats().peak - live < 8 * bytes);  // of 20 gradients of this size
}

// ---- AnomalyMode ----

TEST_CASE("AnomalyMode names the op whose backward made a NaN or an infinity",
          "[autograd][fused]") {
  const Tensor x = leaf({0, 4});
  auto loss = [&] { return sum(exp(sqrt(x)) * 2.0); };
  CHECK_NOTHROW(loss().backward());
  {
    const AnomalyMode anomaly;
    CHECK_THROWS_WITH(loss().backward(),
                      "anomaly: the backward of sqrt produced a NaN or an infinity for input 0 of "
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

TEST_CASE("AnomalyMode: an infinity in the sum so far is not the next op's fault",
          "[autograd][fused]") {
  const Tensor w = ones({2, 2}, float64).requires_grad_(), x = ones({1, 2}, float64);
  const AnomalyMode anomaly;
  for (const bool fused : {true, false}) {
    w.set_grad(full({2, 2}, INFINITY, float64));
    const Tensor y = fused ? linear(x, w) : matmul(x, w);
    CHECK_NOTHROW(y.backward(ones({1, 2}, float64)));
    CHECK(values(w.grad()) == Values(4, INFINITY));
  }
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
                    "anomaly: log produced a NaN or an infinity of shape (2,) from finite inputs");
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
    CHECK_THROWS_WITH(sum(sqrt(x)).backward(), Contains("the backward of sqrt produced"));    // 1/0
    CHECK_THROWS_WITH(sqrt(x).backward(nothing), Contains("the backward of sqrt produced"));  // 0/0
    for (bool create_graph : {false, true})
      CHECK_THROWS_WITH(grad({sum(sqrt(x))}, {x}, {.create_graph = create_graph}),
                        Contains("the backward of sqrt produced"));
    CHECK_FALSE(x.grad().defined());
  }
}

}  // namespace autograd_rules_test
