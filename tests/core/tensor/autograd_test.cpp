// The graph and the engine: recording, the backward pass, freeing, errors.

#include "tests/core/tensor/autograd_test.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "gradus/core/runtime/random.h"

namespace autograd_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

bool close(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  const NoGrad no_grad;
  return norm(a - b).item() <= tolerance * (1 + norm(b).item());
}

int64_t live() { return memory_stats().live; }

}  // namespace

// ---- walking the graph ----

TEST_CASE("a chain of 100,000 ops runs forward and backward and is destroyed", "[autograd]") {
  const int64_t before = live();
  for (const bool with_backward : {false, true}) {
    const Tensor x = scalar(1, float64).requires_grad_();
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = i % 2 ? y * 1.0 : y + 1.0;
    if (!with_backward) continue;
    y.backward();
    CHECK(x.grad().item() == 1);
  }
  {  // saved tensors, and gradients that carry a graph of their own
    const Tensor x = scalar(1, float64).requires_grad_();
    Tensor y = x;
    for (int i = 0; i < 50000; ++i) y = exp(y * 0.0);
    const Tensor g = grad({y * x}, {x}, {.create_graph = true})[0];
    CHECK(g.item() == 1);
  }
  CHECK(live() == before);
}

TEST_CASE("diamonds: gradients add up over paths", "[autograd]") {
  const Tensor x = leaf({3});
  const Tensor a = x * x, b = a + x;
  (a * b + b).backward();  // x^4 + x^3 + x^2 + x
  CHECK(x.grad().item() == 4 * 27 + 3 * 9 + 2 * 3 + 1);

  const Tensor z = leaf({1});
  Tensor y = z;
  for (int i = 0; i < 50; ++i) y = y + y;  // 2^50 paths, 50 nodes
  y.backward();
  CHECK(z.grad().item() == std::pow(2.0, 50));
}

TEST_CASE("gradients of a leaf used twice add up, and accumulate over passes", "[autograd]") {
  const Tensor x = leaf({2, 5});
  sum(x * x).backward();
  CHECK(values(x.grad()) == Values{4, 10});
  const Tensor first = x.grad();
  sum(x * 3.0).backward();
  CHECK(values(x.grad()) == Values{7, 13});
  CHECK(values(first) == Values{4, 10});  // an earlier handle keeps its values
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("each leaf's gradient has its own storage", "[autograd]") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), given = tensor({1, 1}, float64);
  (a + b).backward(given);
  CHECK(a.grad().impl().storage != b.grad().impl().storage);
  CHECK(a.grad().impl().storage != given.impl().storage);
  CHECK(b.grad().impl().storage != given.impl().storage);
  a.backward(given);
  CHECK(values(a.grad()) == Values{2, 2});
  CHECK(values(b.grad()) == Values{1, 1});
  CHECK(values(given) == Values{1, 1});
  const Tensor x = leaf({1, 2});
  sum(x).backward();  // the rule gives an expanded view
  CHECK(x.grad().is_contiguous());
}

TEST_CASE("gradients of gradients", "[autograd]") {
  const Tensor x = leaf({2});
  const Tensor y = x * x * x * x;
  const Tensor d1 = grad({y}, {x}, {.create_graph = true})[0];
  const Tensor d2 = grad({d1}, {x}, {.create_graph = true})[0];
  const Tensor d3 = grad({d2}, {x}, {.create_graph = true})[0];
  CHECK(d1.item() == 32);
  CHECK(d2.item() == 48);
  CHECK(d3.item() == 48);
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(grad({y}, {x}, {.retain_graph = true})[0].requires_grad());
  pow(d1, 2).backward();  // a penalty on the gradient has a gradient like any loss: 2 d1 d2
  CHECK(x.grad().item() == 2 * 32 * 48);
  CHECK_FALSE(x.grad().requires_grad());
}

TEST_CASE("a fused op is right if one of its inputs is another one's ancestor", "[autograd]") {
  manual_seed(5);
  const Tensor x = randn({4, 3}, float64).requires_grad_();
  auto loss_of = [&](bool fused) {
    const Tensor weight = tanh(matmul(x.mT(), x)), bias = sum(x * x, 0);
    const Tensor y = fused ? linear(x, weight, bias, Activation::gelu_tanh)
                           : gelu_tanh(matmul(x, weight.mT()) + bias);
    return std::pair{sum(y * y), weight};
  };
  const auto [fused, fused_weight] = loss_of(true);
  const auto [composed, composed_weight] = loss_of(false);
  for (const bool create_graph : {false, true}) {
    const GradOptions options{.create_graph = create_graph, .retain_graph = true};
    const auto got = grad({fused}, {x, fused_weight}, options);
    const auto expected = grad({composed}, {x, composed_weight}, options);
    CHECK(close(got[0], expected[0], 1e-10));
    CHECK(close(got[1], expected[1], 1e-10));
    if (!create_graph) continue;
    CHECK(close(grad({sum(got[0] * got[0])}, {x})[0],
                grad({sum(expected[0] * expected[0])}, {x})[0], 1e-10));
  }
}

// ---- what is recorded ----

TEST_CASE("requires_grad, leaves and detach", "[autograd]") {
  const Tensor x = leaf({1, 2}), constant = tensor({3, 4}, float64);
  const Tensor y = x * constant;
  CHECK(x.is_leaf());
  CHECK_FALSE(y.is_leaf());
  CHECK(y.requires_grad());
  CHECK_FALSE((constant * constant).requires_grad());
  CHECK_FALSE(max(x, 0).indices.requires_grad());
  CHECK_FALSE(gt(x, constant).requires_grad());
  const Tensor d = y.detach();
  CHECK_FALSE(d.requires_grad());
  CHECK(d.impl().storage == y.impl().storage);
  sum(y * d).backward();  // d is a constant
  CHECK(values(x.grad()) == Values{9, 32});
  CHECK_FALSE(constant.grad().defined());

  CHECK_THROWS_WITH(arange(3).requires_grad_(),
                    "requires_grad_: expected float32 or float64, got int64");
  CHECK_THROWS_WITH(y.requires_grad_(false),
                    "requires_grad_: the tensor was computed by mul; expected a leaf");
  CHECK_FALSE(tensor({1}).requires_grad_().requires_grad_(false).requires_grad());
  CHECK_THROWS_WITH(x.set_grad(ones({3}, float64)),
                    "set_grad: expected a gradient of float64 (2,), got float64 (3,)");
  CHECK_THROWS_WITH(x.set_grad(ones({2})),
                    "set_grad: expected a gradient of float64 (2,), got float32 (2,)");
  x.set_grad(x * 2.0);
  CHECK_FALSE(x.grad().requires_grad());
}

TEST_CASE("NoGrad and GradMode last for a scope and a thread", "[autograd]") {
  const Tensor x = leaf({1});
  {
    const NoGrad no_grad;
    CHECK_FALSE(grad_enabled());
    CHECK_FALSE((x * x).requires_grad());
    {
      const GradMode on(true);
      CHECK((x * x).requires_grad());
    }
    CHECK_FALSE((x * x).requires_grad());
    bool elsewhere = false;
    std::thread([&] { elsewhere = grad_enabled(); }).join();
    CHECK(elsewhere);
  }
  CHECK(grad_enabled());
  CHECK(is_training());
  {
    const EvalMode eval;
    CHECK_FALSE(is_training());
    const EvalMode train(false);
    CHECK(is_training());
  }
  CHECK(is_training());
}

TEST_CASE("modes are restored when a rule throws", "[autograd]") {
  const Tensor x = leaf({1});
  auto y = [&] {
    return identity("thrower", x, saves_nothing,
                    [](Backward&) { throw std::runtime_error("from the rule"); });
  };
  CHECK_THROWS_WITH(y().backward(), "from the rule");
  CHECK(grad_enabled());
  CHECK((x * x).requires_grad());
  const Tensor thrower = y();
  const NoGrad no_grad;
  CHECK_THROWS_WITH(grad({thrower}, {x}, {.create_graph = true}), "from the rule");
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("backward and grad refuse bad arguments", "[autograd]") {
  const Tensor x = leaf({1, 2}), unused = leaf({1}), constant = tensor({1, 2}, float64);
  const Tensor y = x * x;
  CHECK_THROWS_WITH(
      y.backward(),
      "backward: an output of shape (2,) needs an explicit gradient; only a one-element "
      "output defaults to 1");
  CHECK_THROWS_WITH(y.backward(ones({3}, float64)),
                    "backward: expected an output gradient of float64 (2,), got float64 (3,)");
  CHECK_THROWS_WITH(y.backward(ones({2})),
                    "backward: expected an output gradient of float64 (2,), got float32 (2,)");
  CHECK_THROWS_WITH(constant.backward(constant), "backward: the output does not require grad");
  CHECK_THROWS_WITH(grad({sum(y)}, {constant}), "grad: input 0 does not require grad");
  CHECK_THROWS_WITH(grad({constant}, {x}), "grad: output 0 does not require grad");
  CHECK_THROWS_WITH(grad({sum(y)}, {x, unused}),
                    "grad: no output depends on input 1 of shape (1,)");
  CHECK_THROWS_WITH(grad({y, y}, {x}, {.grad_outputs = {constant}}),
                    "grad: expected 2 output gradients, got 1");
  CHECK_THROWS_WITH(grad({y}, {x}),
                    Contains("grad: an output of shape (2,) needs an explicit gradient"));
  // An undefined gradient means 1, beside a given one too.
  const Tensor given = tensor({10, 20}, float64);
  CHECK(values(grad({sum(x), x * 2.0}, {x}, {.grad_outputs = {Tensor(), given}})[0]) ==
        Values{21, 41});
  const auto some = grad({sum(x * x)}, {unused, x}, {.allow_unused = true});
  CHECK_FALSE(some[0].defined());
  CHECK(values(some[1]) == Values{2, 4});
}

TEST_CASE("grad: takes several outputs and inner tensors, and runs only the rules it needs",
          "[autograd]") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor h = x * w;
  int calls = 0;
  const Tensor counted = identity("counted", w, saves_nothing, [&calls](Backward& b) {
    ++calls;
    b.give(0, b.grad());
  });
  const Tensor y = sum(exp(h) * counted), z = sum(h);
  const auto g = grad({y, z}, {h, x, x}, {.retain_graph = true});
  CHECK(close(g[0], exp(h) * w + 1.0));
  CHECK(close(g[1], (exp(h) * w + 1.0) * w));
  CHECK(values(g[1]) == values(g[2]));
  CHECK(calls == 0);  // w's gradient was not requested
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(w.grad().defined());
  CHECK(grad({z}, {z}, {.retain_graph = true})[0].item() == 1);
  const auto [low, high] = [&] {
    const auto pieces = (x * 2.0).split(1, 0);
    return std::pair{pieces[0], pieces[1]};
  }();
  CHECK(grad({low * high}, {high})[0].item() == 2);  // one of an op's two outputs
}

// ---- the graph's life ----

TEST_CASE("a second backward needs retain_graph", "[autograd]") {
  const Tensor x = leaf({2});
  const Tensor h = exp(x), y = h * h;
  y.backward({}, true);
  const double once = x.grad().item();
  y.backward();
  CHECK(x.grad().item() == 2 * once);
  const char* message =
      "mul: backward ran a second time: the first pass freed the graph; pass retain_graph to it";
  CHECK_THROWS_WITH(y.backward(), message);
  CHECK_THROWS_WITH(grad({y}, {x}), message);
  CHECK_THROWS_WITH(grad({y}, {x}, {.allow_unused = true}), message);
  // A new graph on top of a freed one: a gradient of the new part alone would be wrong.
  auto z = [&] { return h * 3.0 + x; };
  CHECK_THROWS_WITH(z().backward(), Contains("exp: backward ran a second time"));
  CHECK_THROWS_WITH(grad({z()}, {x}), Contains("exp: backward ran a second time"));
  CHECK(grad({z()}, {h})[0].item() == 3);
}

TEST_CASE("backward frees saved tensors as it proceeds", "[autograd]") {
  const Tensor x = randn({1000}, float64).requires_grad_();
  Tensor y = sum(exp(x));
  const int64_t with_graph = live();
  y.backward();
  x.set_grad({});
  CHECK(live() <= with_graph - 8000);  // exp's output is gone, though y still lives
}

TEST_CASE("a freed graph leaves no memory allocated", "[autograd]") {
  const int64_t before = live();
  {
    const Tensor x = randn({20, 30}, float64).requires_grad_();
    const Tensor w = randn({30, 5}, float64).requires_grad_();
    const int64_t leaves = live();
    auto loss = [&] { return sum(softmax(matmul(x, w)) * tanh(matmul(x, w))); };
    loss();
    CHECK(live() == leaves);
    grad({loss()}, {x}, {.create_graph = true});
    CHECK(live() == leaves);
    {
      const Tensor h = loss();
      h.register_hook([w](const Tensor& dy) { return dy * sum(w); });
      const auto g = grad({h}, {x, w}, {.create_graph = true});
      (sum(g[0] * g[0]) + sum(g[1])).backward();
    }
    CHECK(live() > leaves);
    for (const Tensor& t : {x, w}) t.set_grad({});
    CHECK(live() == leaves);
    const Tensor y = identity("thrower", loss(), saves_inputs, [](Backward&) { fail("no"); });
    CHECK_THROWS(y.backward());
  }
  CHECK(live() == before);
}

// ---- in place ----

TEST_CASE("an in-place op that throws changes nothing", "[autograd]") {
  const Tensor x = tensor({{1, 2}}).requires_grad_(),
               mask = from_data(std::vector<bool>{true, false}, {2});
  const Tensor half = tensor({{3, 4}}).to(bfloat16);
  const Tensor y = sum(masked_fill(x, mask, 0)) + sum(linear(x, half));
  const NoGrad no_grad;
  CHECK_THROWS_WITH(mask.mul_(2), Contains("mul_: expected"));
  CHECK_THROWS_WITH(half.fill_(1), Contains("bfloat16"));
  CHECK_THROWS_WITH(half.copy_(tensor({{5, 6}})), Contains("copy_: expected bfloat16"));
  CHECK_THROWS_WITH(zeros({1, 2}).copy_(half), Contains("copy_: expected") && Contains("to()"));
  y.backward();
  CHECK(difference(x.grad(), tensor({{3, 5}})) == 0);
}

TEST_CASE("a tensor changed in place after it was saved is an error", "[autograd][fused]") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  auto changed = [](const Tensor& t) {
    const NoGrad no_grad;
    t.add_(ones_like(t));
  };
  const Tensor y = exp(x);
  changed(y);
  CHECK_THROWS_WITH(sum(y).backward(),
                    "exp: output 0 of shape (2,) was changed in place after it was saved for "
                    "backward");
  const Tensor z = x * w;
  changed(w[0]);  // through a view
  CHECK_THROWS_WITH(sum(z).backward(),
                    "mul: input 1 of shape (2,) was changed in place after it was saved for "
                    "backward");
  const Tensor s = x + w;
  changed(w);  // add reads neither input
  CHECK_NOTHROW(sum(s).backward());

  const Tensor mask = from_data(std::vector<bool>{true, false}, {2});
  const Tensor chosen = where(mask, x, w), filled = masked_fill(x, mask, 0);
  mask.fill_(1);
  CHECK_THROWS_WITH(sum(chosen).backward(), Contains("where: input 0"));
  CHECK_THROWS_WITH(sum(filled).backward(), Contains("masked_fill: input 1"));
  const Tensor index = arange(2), taken = index_select(x, 0, index);
  index.fill_(0);
  CHECK_THROWS_WITH(sum(taken).backward(), Contains("index_select: input 1"));

  const Tensor q = randn({1, 2, 2}, float64).requires_grad_(), bias = zeros({2, 2}, float64);
  const Tensor class_weights = ones({2}, float64);
  const Tensor attended = scaled_dot_product_attention(q, q, q, {.mask = bias});
  const Tensor loss = cross_entropy(q[0], arange(2), {.class_weights = class_weights});
  const Tensor projected =
      self_attention(q.reshape({1, 1, 4}).expand({1, 2, 4}).slice(2, 0, 3), 1, 1, {.mask = bias});
  bias.fill_(1);
  class_weights.fill_(2);
  for (const bool create_graph : {false, true}) {
    const GradOptions options{.create_graph = create_graph, .retain_graph = true};
    CHECK_THROWS_WITH(grad({sum(attended)}, {q}, options),
                      Contains("scaled_dot_product_attention: input 3"));
    CHECK_THROWS_WITH(grad({sum(projected)}, {q}, options), Contains("self_attention: input 1"));
    CHECK_THROWS_WITH(grad({loss}, {q}, options), Contains("cross_entropy: input 2"));
  }
}

TEST_CASE("in-place ops are refused where a gradient would be recorded", "[autograd]") {
  const Tensor x = leaf({1, 2}), constant = tensor({1, 2}, float64);
  const char* message =
      "in place on a tensor that requires grad while gradients are recorded; open a NoGrad scope "
      "or use the op that returns a new tensor";
  CHECK_THROWS_WITH(x.fill_(0), std::string("fill_: ") + message);
  CHECK_THROWS_WITH(x.mul_(2), Contains("mul_: in place on a tensor that requires grad"));
  CHECK_THROWS_WITH(x[0].add_(constant[0]), Contains("add_: in place"));
  CHECK_THROWS_WITH((x * 2.0).copy_(constant), Contains("copy_: in place"));
  CHECK_THROWS_WITH(constant.copy_(x),
                    "copy_: the source requires grad; in-place ops record no gradient");
  CHECK_THROWS_WITH(constant.add_(x),
                    "add_: the addend requires grad; in-place ops record no gradient");
  CHECK(values(x) == Values{1, 2});
  const NoGrad no_grad;
  x.add_(constant, -0.5);
  CHECK(values(x) == Values{0.5, 1});
}

// ---- pictures ----

TEST_CASE("to_dot draws the graph", "[autograd]") {
  const Tensor a = leaf({2}), b = leaf({3});
  const Tensor product = a * b, y = product + a;
  y.backward({}, true);
  CHECK(to_dot(y) == R"(digraph gradus {
  rankdir=LR;
  n0 [shape=record, label="{8}"];
  n1 -> n0;
  n1 [label="add"];
  n2 -> n1;
  n3 [shape=record, label="{2 | grad 4}"];
  n3 -> n1;
  n2 [label="mul"];
  n3 -> n2;
  n4 [shape=record, label="{3 | grad 2}"];
  n4 -> n2;
}
)");
  const std::string named = to_dot(y, {{"a b", product}, {"{x}", a}});
  CHECK_THAT(named, Contains(R"([shape=record, label="{a\ b | 6}"])"));
  CHECK_THAT(named, Contains(R"([shape=record, label="{\{x\} | 2 | grad 4}"])"));
  CHECK_THAT(to_dot(y, {{"a\nb", product}}), Contains(R"(label="{a b | 6}"])"));
  const Tensor pieces = randn({2, 3}).requires_grad_();
  CHECK_THAT(to_dot(sum(pieces.split(1, 0)[1])), Contains("{(2, 3)}") && Contains("\"split\""));
  const auto halves = leaf({1, 2}).split(1, 0);  // each named output of an op has its own box
  CHECK_THAT(to_dot(halves[0] * halves[1], {{"low", halves[0]}, {"high", halves[1]}}),
             Contains("{low | 1}\"];\n  n3 -> n2;\n  n2 -> n1;\n") &&
                 Contains("{high | 2}\"];\n  n3 -> n4;\n  n4 -> n1;\n"));
  CHECK_THAT(to_dot(a, {{"a|b<c>\"\\", a}}), Contains(R"({a\|b\<c\>\"\\ | 2 | grad 4})"));
  CHECK_THROWS_WITH(to_dot(scalar(1)), "to_dot: the tensor does not require grad");
  CHECK_THROWS_WITH(to_dot(y, {{"c", scalar(1)}}), Contains("to_dot: c does not require grad"));
}

// ---- threads ----

TEST_CASE("several threads may run their own graphs", "[autograd][fused]") {
  const Tensor data = randn({64, 96}), shared = randn({96, 96});
  auto train = [&](uint64_t seed) {
    manual_seed(seed);
    const Tensor w = (randn({96, 96}) * 0.1).requires_grad_();
    for (int step = 0; step < 5; ++step) {
      const Tensor h = linear(dropout(data, 0.1), w, {}, Activation::gelu_tanh);
      mean(pow(layer_norm(matmul(h, shared)), 2) * softmax(h)).backward();
      const NoGrad no_grad;
      w.add_(w.grad(), -0.1);
      w.set_grad({});
    }
    return w.to_vector<float>();
  };
  std::vector<std::vector<float>> expected, got(4);
  for (uint64_t i = 0; i < 4; ++i) expected.push_back(train(i));
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) threads.emplace_back([&, i] { got[i] = train(i); });
  for (std::thread& thread : threads) thread.join();
  CHECK(got == expected);
}

}  // namespace autograd_test
