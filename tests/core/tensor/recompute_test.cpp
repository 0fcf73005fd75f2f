// recompute(): the same values, gradients and further derivatives as without, in less memory.

#include "gradus/core/tensor/recompute.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <thread>

#include "gradus/core/debug/gradcheck.h"
#include "gradus/core/ops/attention.h"
#include "tests/core/tensor/autograd_test.h"

namespace recompute_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

using Function = std::function<Tensor(const Tensor&)>;
const bool both[] = {false, true};

int64_t live() { return memory_stats().live; }

/// f(x), recomputed in backward or not.
Tensor apply(bool recomputed, const Function& f, const Tensor& x) {
  return recomputed ? recompute(f, x) : f(x);
}

Tensor randn_leaf(const Shape& shape, Dtype dtype = float32) {
  return randn(shape, dtype).requires_grad_();
}

/// The feed-forward part of a block, with every kind of saved tensor: ops and fused ops, inputs,
/// outputs, dropout's mask and the statistics of a norm.
struct Layer {
  Tensor gain, bias, in, out;
  explicit Layer(Dtype dtype = float32)
      : gain(randn_leaf({8}, dtype)),
        bias(randn_leaf({8}, dtype)),
        in(randn_leaf({16, 8}, dtype)),
        out(randn_leaf({8, 16}, dtype)) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor h = dropout(linear(layer_norm(x, gain, bias), in, {}, Activation::gelu), 0.25);
    return x + tanh(linear(h, out)) * softmax(x);
  }
  std::vector<Tensor> parameters() const { return {gain, bias, in, out}; }
};

/// The output of three layers and the gradients of x and all parameters by backward().
std::vector<Tensor> three_layers(bool recomputed) {
  manual_seed(3);
  const Tensor x = randn_leaf({4, 8});
  const std::vector<Layer> all{Layer(), Layer(), Layer()};
  Tensor y = x;
  for (size_t i = 0; i < all.size(); ++i)
    y = apply(
        recomputed, [&all, i](const Tensor& in) { return all[i](in); }, y);
  sum(y * y).backward();
  std::vector<Tensor> results{y, x.grad()};
  for (const Layer& layer : all)
    for (const Tensor& p : layer.parameters()) results.push_back(p.grad());
  results.push_back(randn({3}));  // the random state afterwards
  return results;
}

/// The largest allocation in use while `call` runs, above what was in use before.
int64_t peak_of(const std::function<void()>& call) {
  const int64_t before = live();
  reset_peak_memory();
  call();
  return memory_stats().peak - before;
}

std::vector<Values> all_values(const std::vector<Tensor>& tensors) {
  std::vector<Values> all;
  for (const Tensor& x : tensors) all.push_back(x.defined() ? values(x) : Values{});
  return all;
}

}  // namespace

// ---- the same bits ----

TEST_CASE("recompute: values, gradients and random state have the same bits", "[recompute]") {
  CHECK(all_values(three_layers(true)) == all_values(three_layers(false)));
}

TEST_CASE("recompute: the function runs once forward and once in backward", "[recompute]") {
  int calls = 0;
  const Tensor x = leaf({2}), w = leaf({3});
  const Tensor y = recompute(
      [&](const Tensor& in) {
        ++calls;
        CHECK(recomputing() == (calls == 2));
        return exp(in * w) * w;
      },
      x);
  CHECK(calls == 1);
  const Tensor z = y + y * 2.0;
  CHECK(calls == 1);
  z.backward();
  CHECK(calls == 2);
  CHECK_FALSE(recomputing());
  CHECK(x.grad().item() == Approx(3 * 9 * std::exp(6)));
  CHECK_THROWS_WITH(z.backward(), Contains("backward ran a second time"));
}

TEST_CASE("recompute: several inputs and outputs, some undefined or unused", "[recompute]") {
  for (const bool as_vectors : both) {
    const Tensor a = leaf({1, 2}), b = leaf({3, 4}), ids = tensor({1, 0}, int64);
    auto f = [](const Tensor& x, const Tensor& y, const Tensor& index) {
      return std::vector<Tensor>{exp(x) * y, index_select(y, 0, index), Tensor(), index};
    };
    const std::vector<Tensor> out = as_vectors ? recompute(
                                                     [&](const std::vector<Tensor>& in) {
                                                       CHECK_FALSE(in[3].defined());
                                                       return f(in[0], in[1], in[2]);
                                                     },
                                                     {a, b, ids, Tensor()})
                                               : recompute(f, a, b, ids);
    CHECK(out.size() == 4);
    CHECK_FALSE(out[2].defined());
    sum(out[0]).backward({}, true);
    CHECK(values(a.grad()) == values(exp(a.detach()) * b.detach()));
    sum(out[1]).backward();
    CHECK(values(b.grad()) == values(exp(a.detach()) + 1.0));
  }
  const Tensor a = leaf({2});
  recompute([&] { return a * a; }).backward();  // no inputs at all
  CHECK(a.grad().item() == 4);
}

TEST_CASE("recompute: pruned passes", "[recompute]") {
  std::vector<std::vector<Values>> results;
  for (const bool recomputed : both) {
    manual_seed(1);
    const Layer layer;
    const Tensor x = randn_leaf({4, 8}), w = randn_leaf({8});
    const Tensor inside = x * w;  // an input that is no leaf
    const Tensor y = apply(
        recomputed, [&](const Tensor& in) { return layer(in) * w; }, inside);
    std::vector<Tensor> given = grad({sum(y * y)}, {layer.in}, {.retain_graph = true});
    for (const Tensor& g : grad({sum(y * y)}, {inside, w}, {.retain_graph = true}))
      given.push_back(g);
    given.push_back(grad({sum(y * y)}, {x})[0]);
    results.push_back(all_values(given));
    CHECK_FALSE(w.grad().defined());
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("recompute: retained graphs and accumulated gradients", "[recompute]") {
  std::vector<Values> results;
  for (const bool recomputed : both) {
    manual_seed(1);
    const Layer layer;
    const Tensor x = randn_leaf({4, 8});
    for (int pass = 0; pass < 2; ++pass) {
      const Tensor y = sum(apply(recomputed, layer, x) * 3.0);
      y.backward({}, true);
      y.backward();
    }
    results.push_back(values(layer.in.grad()));
    results.push_back(values(x.grad()));
  }
  CHECK(results[0] == results[2]);
  CHECK(results[1] == results[3]);
}

TEST_CASE("recompute: hooks and retained gradients, of leaves and inside", "[recompute]") {
  std::vector<std::vector<Values>> results;
  for (const bool recomputed : both) {
    const Tensor x = leaf({1, 2}), w = leaf({3, 4});
    std::vector<Values> seen;
    w.register_hook([&](const Tensor& g) {
      seen.push_back(values(g));
      return g * 2.0;
    });
    Tensor inside;
    const Tensor y = apply(
        recomputed,
        [&](const Tensor& in) {
          const Tensor h = in * w;
          if (!recomputing()) inside = h.retain_grad();
          h.register_hook([&](const Tensor& g) {  // in both runs, but it counts once
            seen.push_back(values(g));
            return g * 10.0;
          });
          return exp(h) * w;
        },
        x);
    inside.register_hook([&](const Tensor& g) {
      seen.push_back(values(g));
      return Tensor();
    });
    sum(y).backward();
    seen.insert(seen.end(), {values(x.grad()), values(w.grad()), values(inside.grad())});
    CHECK(seen.size() == 6);
    results.push_back(seen);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("recompute: a hook that f registers on a tensor from outside runs once", "[recompute]") {
  for (const bool nested : both) {
    std::vector<std::vector<Values>> results;
    for (const bool recomputed : both) {
      const Tensor x = leaf({1, 2}), w = leaf({3, 4}), inside = x * w;
      std::vector<Values> seen;
      auto hook = [&](const Tensor& g) {
        seen.push_back(values(g));
        return g * 10.0;
      };
      const Function f = [&](const Tensor& in) {
        in.register_hook(hook);
        w.register_hook(hook);
        const int64_t removed = x.register_hook(hook);
        x.remove_hook(removed);
        return exp(in * w);
      };
      const Tensor y = apply(
          recomputed,
          [&](const Tensor& in) {
            const Tensor h = tanh(in);
            return nested ? apply(
                                recomputed,
                                [&, h](const Tensor& z) {
                                  h.register_hook(hook);
                                  return f(z);
                                },
                                in) *
                                h
                          : f(in);
          },
          inside);
      sum(y).backward();
      seen.insert(seen.end(), {values(x.grad()), values(w.grad())});
      CHECK(seen.size() == (nested ? 5 : 4));
      results.push_back(seen);
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("recompute: backward() inside f adds to gradients outside once", "[recompute]") {
  for (const bool create_graph : both) {
    std::vector<std::vector<Values>> results;
    for (const bool recomputed : both) {
      const Tensor x = leaf({1, 2}), w = leaf({3, 4}), inside = x * w, outside = sum(w * w);
      int hooks = 0;
      inside.retain_grad().register_hook([&](const Tensor&) {
        ++hooks;
        return Tensor();
      });
      const Tensor y = apply(
          recomputed,
          [&](const Tensor& in) {
            const Tensor z = full({2}, 0.5, float64).requires_grad_();
            sum(in * w * z).backward({}, true);
            outside.backward({}, true);
            w.backward(full({2}, 7, float64));
            return in * w * z.grad();  // of the tensors made inside, both runs need it
          },
          inside);
      results.push_back({values(w.grad())});
      if (create_graph)
        for (const Tensor& g : grad({sum(y)}, {x, w}, {.create_graph = true}))
          results.back().push_back(values(g));
      else
        sum(y).backward();
      for (const Tensor& t : {x, w, inside}) results.back().push_back(values(t.grad()));
      CHECK(hooks == 2);
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("recompute: leaves made by the function", "[recompute]") {
  for (const bool nested : both) {
    std::vector<std::vector<Values>> results;
    for (const bool recomputed : both) {
      const Tensor x = leaf({1, 2});
      Tensor made, made_within;  // those of the first run
      const Tensor y = apply(
          recomputed,
          [&](const Tensor& in) {
            const Tensor z = tensor({3, 4}, float64).requires_grad_();
            const Tensor u = in.detach().requires_grad_();
            if (!recomputing()) made = z;
            const Function within = [&, z](const Tensor& h) {
              const Tensor v = full({2}, 0.5, float64).requires_grad_();
              if (!recomputing()) made_within = v;
              return exp(h * z * v);
            };
            const Tensor g = grad({sum(u * u * z)}, {u}, {.create_graph = true})[0];
            return apply(recomputed && nested, within, in * z) * g;
          },
          x);
      std::vector<Values> given;
      const std::vector<Tensor> leaves{x, made, made_within};
      const auto first = grad({sum(y)}, leaves, {.create_graph = true});
      const auto second =
          grad({sum(first[0] * first[1]) + sum(first[2])}, leaves, {.create_graph = true});
      for (const auto& all : {first, second})
        for (const Tensor& g : all) given.push_back(values(g));
      sum(y).backward();
      for (const Tensor& t : leaves) given.push_back(values(t.grad()));
      results.push_back(given);
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("recompute: leaves made by the function are not changed in place", "[recompute]") {
  const Tensor w = tensor({3}, float64);
  for (const bool inside : both) {
    const Tensor x = leaf({2});
    const Tensor y = recompute(
        [&](const Tensor& in) {
          const Tensor z = w.detach().requires_grad_(), product = in * z;
          if (const NoGrad no_grad; inside) z.add_(z);
          return exp(product);
        },
        x);
    if (!inside) w.zero_();
    CHECK_THROWS_WITH(y.backward(),
                      "mul: input 1 of shape (1,) was changed in place before backward, which "
                      "recomputes from it");
  }
}

TEST_CASE("recompute: a gradient retained in both calls", "[recompute]") {
  for (const bool returned : both) {
    std::vector<Values> results;
    for (const bool recomputed : both) {
      const Tensor x = leaf({1, 2});
      Tensor inside;
      const Tensor y = sum(apply(
          recomputed,
          [&](const Tensor& in) {
            const Tensor h = exp(in);
            inside = h.retain_grad();
            return returned ? h : h * h;
          },
          x));
      y.backward();
      REQUIRE(inside.grad().defined());
      results.push_back(values(inside.grad()));
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("recompute: a penalty is a second output", "[recompute]") {
  std::vector<Values> results;
  auto f = [](const Tensor& in) {
    const Tensor h = exp(in);
    return std::vector<Tensor>{h * 3.0, sum(h * h)};
  };
  for (const bool recomputed : both) {
    const Tensor x = leaf({1, 2});
    const std::vector<Tensor> out = recomputed ? recompute(f, x) : f(x);
    (sum(out[0]) + out[1]).backward();
    results.push_back(values(x.grad()));
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("recompute: both calls start from the same state of the function", "[recompute]") {
  const Tensor x = leaf({2});
  const Tensor y = recompute(
      [factor = 1.0](const Tensor& in) mutable {
        factor *= 3;
        return exp(in * factor);
      },
      x);
  y.backward();
  CHECK(x.grad().item() == Approx(3 * std::exp(6)));

  struct Keeps {  // a layer that keeps its last activation
    Tensor w;
    mutable Tensor last = {};
    Tensor operator()(const Tensor& in) const {
      last = exp(in * w);
      return last * 2.0;
    }
  };
  const int64_t before = live();
  for (const bool with_backward : both) {
    const Tensor w = ones({64}).requires_grad_(), z = sum(recompute(Keeps{w}, ones({64})));
    if (with_backward) z.backward();
  }
  CHECK(live() == before);
}

// ---- random numbers and modes ----

TEST_CASE("recompute: the second run has the first one's modes and random numbers", "[recompute]") {
  struct Seen {
    bool grad, eval, anomaly, composed, bfloat16;
    Values numbers;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;
  bool throws = false;
  const Function f = [&](const Tensor& in) {
    const Modes& m = modes();
    seen.push_back({m.grad, m.eval, m.anomaly, m.composed, m.bfloat16, values(rand({3}))});
    if (throws) throw Error("stop");
    const Bfloat16Products other(!m.bfloat16);  // for the op alone
    return in * in;
  };
  const Tensor x = leaf({5});
  for (const bool unusual : both) {
    Tensor y;
    {
      const EvalMode eval(unusual);
      const ModeScope anomaly(&Modes::anomaly, unusual), composed(&Modes::composed, unusual);
      const Bfloat16Products rounded(unusual);
      y = recompute(f, x);
    }
    const NoGrad no_grad;
    const EvalMode eval(!unusual);
    const ModeScope anomaly(&Modes::anomaly, !unusual), composed(&Modes::composed, !unusual);
    const RandomKey before = default_generator().state();
    for (const bool fails : {true, false}) {
      throws = fails;
      if (fails)
        CHECK_THROWS_WITH(y.backward(), "stop");
      else
        y.backward();
      CHECK(default_generator().state().seed == before.seed);
      CHECK(default_generator().state().counter == before.counter);
      CHECK_FALSE(recomputing());
      CHECK_FALSE(modes().grad);
      CHECK(modes().eval == !unusual);
      CHECK(modes().anomaly == !unusual);
      CHECK(modes().composed == !unusual);
    }
    REQUIRE(seen.size() == 3);
    CHECK(seen[0] == Seen{true, unusual, unusual, unusual, unusual, seen[0].numbers});
    CHECK(seen[1] == seen[0]);
    CHECK(seen[2] == seen[0]);
    seen.clear();
  }
}

TEST_CASE("recompute: backward on another thread", "[recompute]") {
  std::vector<Values> results;
  for (const bool recomputed : both) {
    manual_seed(9);
    const Layer layer;
    const Tensor x = randn_leaf({4, 8});
    const Tensor y = sum(apply(recomputed, layer, x));
    std::thread([y] {
      manual_seed(10);
      y.backward();
      CHECK(default_generator().state().seed == 10);
      CHECK(default_generator().state().counter == 0);
    }).join();
    results.push_back(values(x.grad()));
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("recompute: under NoGrad it calls the function", "[recompute]") {
  const Tensor x = leaf({2});
  int calls = 0;
  const auto f = [&](const Tensor& in) {
    ++calls;
    return in * in;
  };
  {
    const NoGrad no_grad;
    CHECK(recompute(f, x).item() == 4);
    CHECK_FALSE(recompute(f, x).requires_grad());
  }
  CHECK(calls == 2);
  CHECK_FALSE(recompute(f, x.detach()).requires_grad());
  CHECK(recompute([](const Tensor& in) { return in; }, x).impl_ptr() == x.impl_ptr());
}

TEST_CASE("recompute: an error in the first run leaves nothing behind", "[recompute]") {
  const int64_t before = live();
  {
    const Tensor x = leaf({2});
    CHECK_THROWS_WITH(recompute(
                          [](const Tensor& in) {
                            const Tensor y = in * in;
                            throw Error("stop");
                            return y;
                          },
                          x),
                      "stop");
    const Tensor y = recompute([](const Tensor& in) { return in * in; }, x);
    y.backward();
    CHECK(x.grad().item() == 4);
  }
  CHECK(live() == before);
}

TEST_CASE("recompute: a trace of attention in one run or in both", "[recompute]") {
  manual_seed(2);
  const Tensor q = randn_leaf({1, 1, 3, 4});
  auto f = [](const Tensor& in) { return scaled_dot_product_attention(in, in, in); };
  for (const bool during_backward : both) {
    Tensor y;
    std::optional<AttentionTrace> trace(std::in_place);
    y = recompute(f, q);
    if (!during_backward) trace.reset();
    const Tensor g = grad({sum(y)}, {q})[0];
    if (trace) CHECK(trace->weights().size() == 1);
    trace.reset();
    CHECK(values(g) == values(grad({sum(f(q))}, {q})[0]));
  }
}

// ---- gradients of gradients ----

TEST_CASE("recompute: gradients of gradients", "[recompute]") {
  manual_seed(4);
  const Layer layer(float64);
  auto f = [](const std::vector<Tensor>& in) {
    const Tensor h = linear(layer_norm(in[0], in[1], in[2]), in[3], {}, Activation::gelu);
    const Tensor y = recompute([h](const Tensor& x) { return tanh(x) * h; }, h * 0.5);
    return std::vector<Tensor>{linear(y, in[4]) * softmax(in[0])};
  };
  auto recomputed = [&](const std::vector<Tensor>& in) { return recompute(f, in); };
  const std::vector<Tensor> inputs{randn_leaf({2, 8}, float64), layer.gain, layer.bias, layer.in,
                                   layer.out};
  CHECK(gradcheck(recomputed, inputs));
  CHECK(gradgradcheck(recomputed, inputs));

  std::vector<std::vector<Values>> results;
  for (const bool on : both) {  // a penalty on the gradient, and a third derivative
    const Tensor y = sum(on ? recomputed(inputs)[0] : f(inputs)[0]);
    const auto first = grad({y}, inputs, {.create_graph = true});
    const auto second = grad({sum(first[0] * first[0]) + sum(first[3])}, inputs,
                             {.create_graph = true, .allow_unused = true});
    results.push_back(all_values(first));
    results.push_back(all_values(second));
    results.push_back(all_values(grad({sum(second[3])}, inputs, {.allow_unused = true})));
  }
  for (size_t i = 0; i < 3; ++i) CHECK(results[i] == results[i + 3]);
}

TEST_CASE("recompute: a function that takes gradients itself", "[recompute]") {
  for (const bool create_graph : both) {
    std::vector<std::vector<Values>> results;
    for (const bool recomputed : both) {
      const Tensor x = leaf({0.5, 2}), w = leaf({3, 4});
      const Tensor y = apply(
          recomputed,
          [&](const Tensor& in) {
            const Tensor energy = sum(apply(
                recomputed, [&](const Tensor& z) { return exp(z * w); }, in));
            return grad({energy}, {in}, {.create_graph = create_graph})[0] * in;
          },
          x * 1.0);
      sum(y).backward();
      results.push_back(
          {values(y), values(x.grad()), w.grad().defined() ? values(w.grad()) : Values{}});
    }
    CHECK(results[0] == results[1]);
  }
}

// ---- nesting ----

TEST_CASE("recompute: nested calls", "[recompute]") {
  std::vector<std::vector<Values>> results;
  for (const bool recomputed : both) {
    manual_seed(6);
    const Layer a, b, c;
    const Tensor x = randn_leaf({4, 8});
    int inner_calls = 0;
    const Tensor y = apply(
        recomputed,
        [&](const Tensor& in) {
          const Tensor h = a(in);
          const Tensor k = apply(
              recomputed,
              [&, h](const Tensor& z) {
                ++inner_calls;
                return b(apply(recomputed, c, z)) * h;
              },
              h);
          return k + h;
        },
        x);
    sum(y * y).backward();
    CHECK(inner_calls == (recomputed ? 3 : 1));  // forward, in the outer's second run, its own
    std::vector<Tensor> given{y, x.grad()};
    for (const Layer* layer : {&a, &b, &c})
      for (const Tensor& p : layer->parameters()) given.push_back(p.grad());
    results.push_back(all_values(given));
  }
  CHECK(results[0] == results[1]);
}

// ---- refusals ----

TEST_CASE("recompute: tensors changed in place before backward", "[recompute]") {
  auto backward_after = [](const std::function<void(const Tensor&, const Tensor&)>& change) {
    const Tensor x = leaf({2}), w = leaf({3});
    const Tensor h = x * 1.0;
    const Tensor y = recompute([&](const Tensor& in) { return exp((in + 1.0) + w); }, h);
    const NoGrad no_grad;
    change(h, w);
    y.backward();
  };
  backward_after([](const Tensor&, const Tensor&) {});
  CHECK_THROWS_WITH(backward_after([](const Tensor& h, const Tensor&) { h.zero_(); }),
                    "add_scalar: input 0 of shape (1,) was changed in place before backward, which "
                    "recomputes from it");
  CHECK_THROWS_WITH(backward_after([](const Tensor&, const Tensor& w) { w.zero_(); }),
                    "add: input 1 of shape (1,) was changed in place before backward, which "
                    "recomputes from it");

  const Tensor x = leaf({2}), factor = tensor({3}, float64);  // read by no recorded op
  const Tensor y =
      recompute([](const Tensor& in, const Tensor& f) { return in * (f * 2.0); }, x, factor);
  factor.zero_();
  CHECK_THROWS_WITH(y.backward(),
                    "recompute: input 1 of shape (1,) was changed in place before backward, which "
                    "recomputes from it");
}

TEST_CASE("recompute: a function that computes something else the second time", "[recompute]") {
  const Tensor x = leaf({1, 2}), v = leaf({3, 4}), w = leaf({3, 4});
  auto error = [&](const Function& first, const Function& second) {
    const Tensor y =
        recompute([&](const Tensor& in) { return recomputing() ? second(in) : first(in); }, x);
    const RandomKey random = default_generator().state();
    const std::string message = error_of([&] { sum(y).backward(); });
    CHECK(default_generator().state().counter == random.counter);
    CHECK(grad_enabled());
    CHECK(error_of([&] { sum(y).backward(); }) == message);  // and again
    return message;
  };
  const std::string opening = "recompute: the function computed something else when run again: ";
  const std::string hint =
      " (was a parameter frozen since, or a tensor stored outside in one run only?)";
  const Function squared = [](const Tensor& in) { return in * in; };
  CHECK(error(squared, [](const Tensor& in) { return in * in * in; }) ==
        opening + "1 ops at first, now 2" + hint);
  CHECK(error(squared, [](const Tensor& in) { return in; }) ==
        opening + "1 ops at first, now 0" + hint);
  CHECK(error(squared, [](const Tensor& in) { return in + in; }) ==
        opening + "op 0 was mul, is now add");
  CHECK(error([](const Tensor& in) { return exp(in) * exp(in * 2.0); },
              [](const Tensor& in) { return exp(in) * exp(in.detach() * 2.0); }) ==
        opening + "4 ops at first, now 2" + hint);
  CHECK(error([&](const Tensor& in) { return exp(exp(in) * in) * w; },
              [&](const Tensor& in) { return exp(in * exp(in)) * w; }) ==
        opening + "input 0 of op 1, mul, is another tensor");
  CHECK(error([&](const Tensor& in) { return in * w; }, [&](const Tensor& in) { return in * v; }) ==
        opening + "input 1 of op 0, mul, is another tensor");
  CHECK(error([&](const Tensor& in) { return exp(in) * exp(w); },
              [&](const Tensor& in) { return exp(w) * exp(in); }) ==
        opening + "input 0 of op 0, exp, is another tensor");
  auto passes_once = [](bool retain) {
    return [retain](const Tensor& in) {
      const Tensor h = exp(in);
      grad({sum(h)}, {in}, {.retain_graph = retain});
      return h;
    };
  };
  CHECK(error(passes_once(true), passes_once(false)) ==
        opening + "op 0, exp, was freed by a backward pass inside the function in one run only");
  CHECK(error([](const Tensor& in) { return sum(in, 0); },
              [](const Tensor& in) { return sum(in, 0, keepdim); }) ==
        opening + "op 0, sum, has other shapes or dtypes");
  CHECK(error([&](const Tensor& in) { return exp(in.slice(0, 0, 1)); },
              [&](const Tensor& in) { return exp(in.slice(0, 0, 2)); }) ==
        opening + "op 0, slice, has other shapes or dtypes");
}

TEST_CASE("recompute: a tensor stored in one run only, and a frozen parameter", "[recompute]") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tensor penalty;
  const Tensor y = recompute(
      [&](const Tensor& in) {
        const Tensor h = exp(in), squares = sum(h * h);
        if (!recomputing()) penalty = squares;
        return h * 3.0;
      },
      x);
  CHECK_THROWS_WITH((sum(y) + penalty).backward(),
                    Contains("4 ops at first, now 2 (was a parameter frozen since, or a tensor "
                             "stored outside in one run only?)"));
  const Tensor z = recompute([&](const Tensor& in) { return in * exp(w); }, x);
  w.requires_grad_(false);
  CHECK_THROWS_WITH(sum(z).backward(),
                    Contains("2 ops at first, now 1 (was a parameter frozen since, or a tensor "
                             "stored outside in one run only?)"));
}

// ---- memory ----

TEST_CASE("recompute: keeps less, and nothing after backward", "[recompute]") {
  const int64_t before = live();
  {
    constexpr int64_t n = 1 << 16, size = n * 4;
    constexpr int layers = 16, group = 4;
    const Tensor x = zeros({n}).requires_grad_();
    auto loss_of = [&](int at_once) {
      Tensor y = x;
      for (int i = 0; i < layers; i += std::max(at_once, 1))
        y = apply(
            at_once > 0,
            [at_once](const Tensor& in) {
              Tensor h = in;
              for (int j = 0; j < std::max(at_once, 1); ++j) h = exp(h * 0.5);
              return h;
            },
            y);
      return sum(y);
    };
    for (const bool retain : both) {
      const int64_t all = peak_of([&] { loss_of(0).backward({}, retain); }),
                    less = peak_of([&] { loss_of(group).backward({}, retain); });
      INFO("all " << all / size << ", recomputed " << less / size);
      CHECK(all >= layers * size);
      if (!retain) CHECK(less <= (layers / group + group + 6) * size);
      CHECK(live() - before == 2 * size);  // x and its gradient
    }
    const Tensor kept = loss_of(group);
    CHECK(live() - before <= (2 + layers / group + 1) * size);  // the segments' inputs
    grad({kept}, {x}, {.create_graph = true});
  }
  CHECK(live() == before);
}

TEST_CASE("recompute: nothing is left behind by any way that a graph can end", "[recompute]") {
  const int64_t before = live();
  for (const int way : {0, 1, 2, 3, 4}) {
    CAPTURE(way);
    manual_seed(1);
    const Layer a, b;
    const Tensor x = randn_leaf({4, 8});
    const Tensor y = sum(recompute(
        [&](const Tensor& in) { return b(recompute([&](const Tensor& z) { return a(z); }, in)); },
        x));
    if (way == 1) y.backward();
    if (way == 2) grad({y}, {b.out});
    if (way == 3) sum(grad({y}, {x}, {.create_graph = true})[0]).backward();
    if (way == 4) {
      x.register_hook([](const Tensor&) -> Tensor { throw Error("stop"); });
      CHECK_THROWS_WITH(y.backward(), "stop");
    }
  }
  CHECK(live() == before);
}

TEST_CASE("recompute: a chain of 20,000 calls is destroyed without recursion", "[recompute]") {
  const int64_t before = live();
  for (const bool with_backward : both) {
    const Tensor x = scalar(1, float64).requires_grad_();
    Tensor y = x;
    for (int i = 0; i < 20000; ++i)
      y = recompute([](const Tensor& in) { return exp(in * 0.0); }, y);
    if (with_backward) y.backward();
  }
  CHECK(live() == before);
}

}  // namespace recompute_test
