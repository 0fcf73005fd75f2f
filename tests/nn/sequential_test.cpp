// Sequential, parameter-free layers, and accuracy.

#include "gradus/nn/sequential.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/gradus.h"
#include "tests/support/compare.h"

namespace sequential_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;

namespace {

std::vector<std::string> names(const nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : module.named_parameters()) out.push_back(name);
  return out;
}

struct Scale : nn::Module {  // user-defined
  const Tensor factor;
  explicit Scale(int64_t dim) : factor(param("factor", full({dim}, 2))) {}
  Tensor operator()(const Tensor& x) const { return x * factor; }
};
struct Shift {
  double by;
  Tensor operator()(const Tensor& x) { return x + (by += 0); }  // not const: a copy is used
};
struct TwoInputs {
  Tensor operator()(const Tensor& x, const Tensor&) const { return x; }
};
struct Pinned {
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Tensor operator()(const Tensor& x) const { return x; }
};

template <class... Layers>
concept InBraces = requires(Layers... layers) {
  nn::Sequential{layers...};
};
template <class... Layers>
concept InParentheses = std::constructible_from<nn::Sequential, Layers...>;
using Function = Tensor (*)(const Tensor&);

static_assert(InBraces<nn::Linear, nn::Tanh, nn::Linear>);
static_assert(InBraces<Function> && InBraces<nn::Sequential, nn::Sequential>);
static_assert(!InBraces<TwoInputs> && !InBraces<Pinned> && !InBraces<int> && !InBraces<Tensor>);
static_assert(!InParentheses<nn::Linear, nn::Tanh, nn::Linear>);
static_assert(!InParentheses<nn::Linear, nn::Linear> && !InParentheses<nn::Linear>);
static_assert(!std::is_convertible_v<nn::Linear, nn::Sequential>);
static_assert(std::is_copy_constructible_v<nn::Sequential>);
static_assert(!std::is_copy_assignable_v<nn::Sequential>);

}  // namespace

TEST_CASE("Sequential: layers of any kind, in sequence", "[nn]") {
  manual_seed(1);
  const nn::Linear first(2, 16), last(16, 3);
  nn::Sequential net{first,
                     nn::Tanh(),
                     Scale(16),
                     Shift{0.5},
                     nn::Dropout(0.5),
                     [](const Tensor& x) { return x * x; },
                     sigmoid,
                     last};
  CHECK(names(net) ==
        std::vector<std::string>{"0.weight", "0.bias", "2.factor", "7.weight", "7.bias"});
  CHECK(net.size() == 8);
  CHECK(net.num_parameters() == 2 * 16 + 16 + 16 + 16 * 3 + 3);
  const Tensor x = randn({5, 2});
  {
    const EvalMode eval;
    const Tensor h = tanh(first(x)) * 2.0 + 0.5;
    CHECK(difference(net(x), last(sigmoid(h * h))) == 0);
  }
  manual_seed(4);
  const Tensor trained = net(x);
  manual_seed(4);
  CHECK(difference(trained, net(x)) == 0);
  CHECK(difference(trained, net(x)) > 0);  // dropout acts in training mode
  sum(trained).backward();
  for (const Tensor& p : net.parameters()) CHECK(p.grad().defined());
  net.zero_grad();
  CHECK(!first.weight.grad().defined());

  const nn::Sequential none;
  CHECK(difference(none(x), x) == 0);
  CHECK(none.parameters().empty());
}

TEST_CASE("Sequential: nested, as a child, copied, saved, loaded and converted", "[nn]") {
  manual_seed(2);
  struct Net : nn::Module {
    nn::Sequential body;
    nn::Linear out;
    Net()
        : body(child("body",
                     nn::Sequential{nn::Flatten(), nn::Sequential{nn::Linear(4, 3)}, nn::ReLU()})),
          out(child("out", nn::Linear(3, 1))) {}
    Tensor operator()(const Tensor& x) const { return out(body(x)); }
  };
  Net a, b;
  CHECK(names(a) ==
        std::vector<std::string>{"body.1.0.weight", "body.1.0.bias", "out.weight", "out.bias"});
  const Tensor x = randn({5, 2, 2});
  CHECK(difference(a(x), b(x)) > 0);
  b.load_state_dict(a.state_dict());
  CHECK(difference(a(x), b(x)) == 0);
  a.to(float64);
  CHECK(a(x.to(float64)).dtype() == float64);
  CHECK(difference(a(x.to(float64)).to(float32), b(x)) < 1e-6);
  const nn::Sequential body = b.body;
  for (const nn::Sequential& copy : {nn::Sequential(body), nn::Sequential{body}}) {
    CHECK(copy.size() == 3);
    CHECK(names(copy) == std::vector<std::string>{"1.0.weight", "1.0.bias"});
    CHECK(&copy.parameters()[0].impl() == &b.parameters()[0].impl());  // shared
  }
  const nn::Sequential nested{body, body};
  CHECK(nested.size() == 2);
  CHECK(names(nested) == std::vector<std::string>{"0.1.0.weight", "0.1.0.bias"});
}

TEST_CASE("Sequential: layers draw their weights in the order written, on any compiler", "[nn]") {
  manual_seed(1);
  const nn::Linear first(2, 16);
  const nn::Linear second(16, 1);
  manual_seed(1);
  const nn::Sequential net{nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1)};
  const std::vector<Tensor> p = net.parameters();
  REQUIRE(p.size() == 4);
  CHECK(difference(p[0], first.weight) == 0);
  CHECK(difference(p[1], first.bias) == 0);
  CHECK(difference(p[2], second.weight) == 0);
  CHECK(difference(p[3], second.bias) == 0);
}

TEST_CASE("Sequential learns xor", "[nn]") {
  manual_seed(3);
  const Tensor x = tensor({{0, 0}, {0, 1}, {1, 0}, {1, 1}}), y = tensor({{0}, {1}, {1}, {0}});
  nn::Sequential net{nn::Linear(2, 16), nn::Tanh(), nn::Linear(16, 1)};
  optim::RMSprop optimizer(net.parameters(), {.lr = 0.02});
  for (int step = 0; step < 300; ++step) {
    // RMSprop's steps stay as long as the learning rate, so it must decay.
    optimizer.set_lr(optim::schedule::linear(step, {.lr = 0.02, .steps = 300}));
    optimizer.zero_grad();
    mse_loss(net(x), y).backward();
    optimizer.step();
  }
  CHECK(mse_loss(net(x), y).item() < 0.01);
}

TEST_CASE("layers without parameters equal their ops", "[nn]") {
  const Tensor x = tensor({{-2, -0.5, 0, 0.5, 3}}, float64);
  CHECK(difference(nn::ReLU()(x), relu(x)) == 0);
  CHECK(difference(nn::Tanh()(x), tanh(x)) == 0);
  CHECK(difference(nn::Sigmoid()(x), sigmoid(x)) == 0);
  CHECK(difference(nn::SiLU()(x), silu(x)) == 0);
  CHECK(difference(nn::GELU()(x), gelu(x)) == 0);
  CHECK(difference(nn::Softmax(0)(x), softmax(x, 0)) == 0);
  CHECK(difference(nn::Softmax()(x), softmax(x)) == 0);
  CHECK(difference(nn::Identity()(x), x) == 0);
  CHECK(nn::Flatten()(zeros({2, 3, 4})).shape() == Shape{2, 12});
  CHECK(nn::Flatten(0, 1)(zeros({2, 3, 4})).shape() == Shape{6, 4});
  CHECK(difference(nn::LeakyReLU()(x), {-0.02, -0.005, 0, 0.5, 3}) < 1e-15);
  const Tensor leaf = tensor({-INFINITY, -1, 0, 1, INFINITY}, float64).requires_grad_();
  const Tensor y = nn::LeakyReLU(0.2)(leaf);
  CHECK(difference(y, {-INFINITY, -0.2, 0, 1, INFINITY}) == 0);
  sum(y.slice(0, 1, 4)).backward();
  CHECK(difference(leaf.grad(), {0, 0.2, 0.2, 1, 0}) == 0);  // PyTorch's slope at 0
  CHECK(std::isnan(nn::LeakyReLU()(tensor({NAN})).item()));
}

TEST_CASE("accuracy: the fraction of rows with the largest element at the target", "[nn]") {
  const Tensor x = tensor({{1, 3, 2}, {5, 4, 4}, {0, 0, 0}, {-1, -3, -2}});
  CHECK(nn::accuracy(x, tensor({1, 0, 0, 0}, int64)) == 1);
  CHECK(nn::accuracy(x, tensor({1, 0, 1, 2}, int64)) == 0.5);  // of equal elements the first counts
  CHECK(nn::accuracy(x, tensor({1, -100, 1, -100}, int64)) == 0.5);
  CHECK(nn::accuracy(x, tensor({1, 2, 1, 2}, int64), {.ignore_index = 2}) == 0.5);
  CHECK(std::isnan(nn::accuracy(x, full({4}, -100, int64))));
  CHECK(std::isnan(nn::accuracy(zeros({0, 3}), zeros({0}, int64))));
  CHECK(nn::accuracy(x.reshape({2, 2, 3}), tensor({{1, 0}, {2, 0}}, int64)) == 0.75);
  CHECK(nn::accuracy(tensor({1, 2}), tensor(1, int64)) == 1);
  CHECK(nn::accuracy(x.mT(), tensor({1, 0, 1}, int64)) == Approx(2.0 / 3));
  const Tensor bad = tensor({{NAN, 1, 2}, {INFINITY, 1, 2}, {1, NAN, 2}, {-INFINITY, NAN, 0}});
  CHECK(nn::accuracy(bad, tensor({0, 0, 2, 1}, int64)) == 0.25);  // a NaN counts as wrong
  const Tensor w = tensor({{1.0, 2.0}}).requires_grad_();
  CHECK(nn::accuracy(w * 2.0, tensor({1}, int64)) == 1);
  CHECK_THROWS_WITH(nn::accuracy(x, tensor({1, 0, 0, 3}, int64)),
                    "accuracy: target 3 is outside [0, 3)");
  CHECK_THROWS_WITH(nn::accuracy(x, ones({4})),
                    "accuracy: expected targets of int64 (4,), got float32 (4,)");
  CHECK_THROWS_WITH(nn::accuracy(x.to(int64), ones({4}, int64)), Contains("got int64"));
  CHECK_THROWS_WITH(nn::accuracy(tensor(1), tensor(1, int64)), Contains("got shape ()"));
  CHECK(nn::accuracy(ones({2, 1}), zeros({2}, int64)) == 1);  // one class
  CHECK_THROWS_WITH(nn::accuracy(ones({2, 0}), zeros({2}, int64)), Contains("got shape (2, 0)"));
  CHECK_THROWS_WITH(nn::accuracy(x, tensor({1, -1, 0, 0}, int64)),
                    "accuracy: target -1 is outside [0, 3)");
}

}  // namespace sequential_test
