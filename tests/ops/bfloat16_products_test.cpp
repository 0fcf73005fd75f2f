// The mode Bfloat16Products: what is rounded, what is not, and which ops follow it. On processors
// without such products every comparison is between equal float32 numbers.

#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "gradus/gradus.h"
#include "tests/support/compare.h"

namespace bfloat16_products_test {

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor rounded(const Tensor& x) {
  return has_bfloat16_products() ? x.to(bfloat16).to(float32) : x.clone();
}

bool same_bits(const Tensor& a, const Tensor& b) { return values(a) == values(b); }

Tensor in_bfloat16(const std::function<Tensor()>& f) {
  const Bfloat16Products products;
  return f();
}

}  // namespace

TEST_CASE("bfloat16 products round their operands, to the nearest, and add up in float32") {
  manual_seed(1);
  const Tensor a = randn({9, 31}), b = randn({31, 21});
  const Tensor y = in_bfloat16([&] { return matmul(a, b); });
  const Tensor exact = matmul(rounded(a).to(float64), rounded(b).to(float64));
  CHECK(difference(y.to(float64), exact) < 1e-5);
  CHECK(has_bfloat16_products() == (difference(y, matmul(a, b)) > 1e-3));
  // Halfway between two bfloat16: to the even one, below and above.
  const Tensor halves = tensor({1.00390625, 1.01171875, 1.00390625, 1.01171875}).reshape({2, 2});
  const Tensor same = in_bfloat16([&] { return matmul(halves, eye(2)); });
  CHECK(values(same) == values(rounded(halves)));
}

TEST_CASE("bfloat16 products: NaN, infinities, numbers too large and too small") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor x = tensor({nan, inf, -inf, 3.4e38, 3e38, 1e-40, -1e-40, 0.0}).unsqueeze(1);
  const Tensor y = in_bfloat16([&] { return matmul(x, ones({1, 2})); });
  const std::vector<double> got = values(y.select(1, 0)), expected = values(rounded(x));
  CHECK(std::isnan(got[0]));
  for (size_t i = 1; i < 5; ++i) CHECK(got[i] == expected[i]);
  for (size_t i = 5; i < 8; ++i) CHECK(std::abs(got[i]) <= 1e-40);  // 0 where rounded
  CHECK(std::isinf(got[3]) == has_bfloat16_products());
}

TEST_CASE("bfloat16 products: long sums are sums of partial sums") {
  const int64_t n = 1 << 20;
  const double x = values(rounded(full({1}, 0.334)))[0], y = values(rounded(full({1}, 1.336)))[0];
  const Tensor total = in_bfloat16([&] { return matmul(full({2, n}, x), full({n, 2}, y)); });
  CHECK(std::abs(values(total)[3] / (static_cast<double>(n) * x * y) - 1) < 5e-5);
}

TEST_CASE("bfloat16 products: float64, products of vectors and all other ops stay as they are") {
  manual_seed(2);
  const Tensor a = randn({5, 6}), b = randn({6, 7}), row = randn({1, 6});
  const auto unchanged = [](const std::function<Tensor()>& f) {
    return same_bits(f(), in_bfloat16(f));
  };
  CHECK(unchanged([&] { return matmul(a.to(float64), b.to(float64)); }));
  CHECK(unchanged([&] { return matmul(a, b); }) != has_bfloat16_products());
  CHECK(unchanged([&] { return linear(row, b.mT().contiguous()); }));
  CHECK(unchanged([&] { return softmax(a * 3 + 1, 1); }));
  CHECK(unchanged([&] { return layer_norm(a, ones({6}), zeros({6})); }));
  CHECK(unchanged([&] { return sum(a * a); }));
}

TEST_CASE("bfloat16 products: gradients follow the op's mode, whenever backward runs") {
  manual_seed(3);
  const Tensor x = randn({8, 12}), w = randn({10, 12}), dy = randn({8, 10});
  const auto gradients = [&](bool forward, bool backward) {
    const Tensor leaf = x.clone().requires_grad_(), weight = w.clone().requires_grad_();
    Tensor y;
    {
      const Bfloat16Products products(forward);
      y = linear(leaf, weight);
    }
    const Bfloat16Products products(backward);
    return grad({y}, {leaf, weight}, {.grad_outputs = {dy}});
  };
  const std::vector<Tensor> plain = gradients(false, false), both = gradients(true, true);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(same_bits(gradients(false, true)[i], plain[i]));
    CHECK(same_bits(gradients(true, false)[i], both[i]));
    CHECK(same_bits(plain[i], both[i]) != has_bfloat16_products());
  }
  CHECK(difference(both[0], matmul(rounded(dy), rounded(w))) < 1e-5);
  CHECK(difference(both[1], matmul(rounded(dy).mT(), rounded(x))) < 1e-5);
}

TEST_CASE("bfloat16 products: recompute runs in the mode of the first run") {
  manual_seed(4);
  const Tensor x = randn({7, 16}), w = randn({32, 16});
  const auto mlp = [w](const Tensor& in) { return matmul(gelu(linear(in, w)), w); };
  const auto gradient = [&](bool again) {
    const Tensor leaf = x.clone().requires_grad_();
    const Tensor y = in_bfloat16([&] { return again ? recompute(mlp, leaf) : mlp(leaf); });
    return grad({y}, {leaf}, {.grad_outputs = {ones_like(y)}})[0];
  };
  CHECK(same_bits(gradient(true), gradient(false)));
}

TEST_CASE("bfloat16 products: the same bits on any number of threads, in batches too") {
  manual_seed(5);
  const Tensor a = randn({130, 300}), b = randn({300, 210}), many = randn({5, 33, 64});
  const int before = num_threads();
  const auto on = [&](int threads) {
    set_num_threads(threads);
    return in_bfloat16([&] {
      return cat({matmul(a, b).flatten(), matmul(many, many.mT()).flatten()}, 0);
    });
  };
  const Tensor one = on(1);
  CHECK(same_bits(one, on(2)));
  if (has_bfloat16_products()) CHECK(same_bits(one, on(3)));  // of BLAS only two threads do
  set_num_threads(before);
}

TEST_CASE("bfloat16 products: recurrent layers round what each step multiplies") {
  manual_seed(6);
  const int64_t hidden = 33;  // odd, so a pair is half empty
  const Tensor x = randn({3, 7, 4 * hidden}), weight = 0.3 * randn({4 * hidden, hidden});
  const auto gradients = [&](bool by_steps) {
    const Tensor gates = x.clone().requires_grad_(), w = weight.clone().requires_grad_();
    const Tensor loss = in_bfloat16([&] {
      if (!by_steps) return sum(recurrent(Recurrence::lstm, gates, w, {}).output);
      RecurrentState state{zeros({3, hidden}), zeros({3, hidden})};
      Tensor total = zeros({});
      for (int64_t t = 0; t < 7; ++t) {
        state =
            core::recurrent_cell(Recurrence::lstm, gates.select(1, t), linear(state.h, w), state);
        total = total + sum(state.h);
      }
      return total;
    });
    return grad({loss}, {gates, w});
  };
  const std::vector<Tensor> steps = gradients(true), whole = gradients(false);
  // Sums are added in another order, which moves a few numbers to the next bfloat16.
  CHECK(difference(steps[0], whole[0]) < 2e-3);
  CHECK(difference(steps[1], whole[1]) < 2e-2);
  const auto output = [&] { return recurrent(Recurrence::lstm, x, weight, {}).output; };
  CHECK(has_bfloat16_products() == (difference(in_bfloat16(output), output()) > 1e-4));
}

TEST_CASE("bfloat16 products: recurrent layers with a bias are their steps one by one") {
  const Recurrence cell = GENERATE(Recurrence::lstm, Recurrence::gru);
  CAPTURE(int(cell));
  manual_seed(7);
  const int64_t hidden = 33, wide = core::gates_of(cell) * hidden;
  const Tensor x = randn({3, 5, wide}), weight = 0.3 * randn({wide, hidden}), bias = randn({wide});
  const Tensor by = randn({3, 5, hidden});
  const auto results = [&](bool by_steps) {
    const std::vector<Tensor> leaves{x.clone().requires_grad_(), weight.clone().requires_grad_(),
                                     bias.clone().requires_grad_()};
    const Tensor output = in_bfloat16([&] {
      if (!by_steps) return recurrent(cell, leaves[0], leaves[1], leaves[2]).output;
      RecurrentState state{zeros({3, hidden}), zeros({3, hidden})};
      std::vector<Tensor> all;
      for (int64_t t = 0; t < 5; ++t) {
        state = core::recurrent_cell(cell, leaves[0].select(1, t),
                                     linear(state.h, leaves[1], leaves[2]), state);
        all.push_back(state.h);
      }
      return stack(all, 1);
    });
    std::vector<Tensor> all = grad({sum(output * by)}, leaves);
    all.push_back(output);
    return all;
  };
  const std::vector<Tensor> steps = results(true), whole = results(false);
  // A number that moves to the next bfloat16 changes sums of some ten such numbers by about 1e-2.
  for (size_t i = 0; i < 4; ++i) CHECK(difference(steps[i], whole[i]) < 5e-2);
}

TEST_CASE("bfloat16 products: recurrent layers add up several blocks of the weight") {
  // A sum of more than 512 products has two blocks: over 520 units, or 4 * 160 or 3 * 176 gates.
  const auto one = GENERATE(table<Recurrence, int64_t>(
      {{Recurrence::rnn_tanh, 520}, {Recurrence::lstm, 160}, {Recurrence::gru, 176}}));
  const Recurrence cell = std::get<0>(one);
  const int64_t hidden = std::get<1>(one), wide = core::gates_of(cell) * hidden;
  CAPTURE(int(cell));
  manual_seed(8);
  const bool lstm = cell == Recurrence::lstm, gru = cell == Recurrence::gru;
  const Tensor x = randn({3, 1, wide}), h = randn({3, hidden}), c = randn({3, hidden}),
               weight = 0.05 * randn({wide, hidden}), bias = randn({wide}), by = randn({3, hidden});
  for (const bool biased : {false, true}) {
    const Tensor gates = x.clone().requires_grad_(), before = h.clone().requires_grad_();
    const Tensor b = biased ? bias : Tensor();
    const Tensor y = in_bfloat16([&] {
      return recurrent(cell, gates, weight, b, {before, lstm ? c : Tensor()}).output.select(1, 0);
    });
    // One step: h is multiplied once, and in backward the gradient of that product once.
    const Tensor product = matmul(rounded(h), rounded(weight).mT()),
                 z = biased ? product + bias : product;
    CHECK(difference(y.detach(), core::recurrent_cell(cell, x.select(1, 0), z, {h, c}).h) < 1e-4);
    const std::vector<Tensor> d = grad({sum(y * by)}, {gates, before});
    Tensor dz = d[0].select(1, 0), direct = zeros({3, hidden});
    if (gru) {  // n has r times its part of z, and h' has (1 - u) n + u h
      const auto parts = dz.chunk(3, 1), sums = (x.select(1, 0) + z).chunk(3, 1);
      dz = cat({parts[0], parts[1], parts[2] * sigmoid(sums[0])}, 1);
      direct = by * sigmoid(sums[1]);
    }
    CHECK(difference(d[1], matmul(rounded(dz), rounded(weight)) + direct) < 1e-3);
  }
}

}  // namespace bfloat16_products_test
