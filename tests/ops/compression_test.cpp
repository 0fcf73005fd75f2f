// Weights in bfloat16 and int8: conversion, the ops that read them, and everything that refuses
// them.

#include "gradus/core/ops/compression.h"

#include <catch2/catch.hpp>
#include <limits>

#include "gradus/core/core.h"
#include "gradus/core/kernels/products/product.h"
#include "tests/support/compare.h"

namespace compression_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// The int8 matrix as numbers, each block's scale found anew from the float32 matrix: its largest
/// magnitude / 127, rounded up to 8 bits of fraction.
std::vector<double> quantised(const Tensor& x) {
  const auto v = x.to_vector<double>();
  const auto cols = static_cast<size_t>(x.size(1));
  std::vector<double> out(v.size());
  for (size_t row = 0; row < v.size(); row += cols)
    for (size_t at = 0; at < cols; at += 32) {
      const size_t n = std::min<size_t>(32, cols - at);
      double largest = 0;
      for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(v[row + at + i]));
      int exponent = 0;
      const double fraction = std::frexp(static_cast<float>(largest) / 127.f, &exponent);
      const double scale = std::ldexp(std::ceil(std::ldexp(fraction, 8)), exponent - 8);
      for (size_t i = 0; i < n && scale > 0; ++i)
        out[row + at + i] = std::nearbyint(v[row + at + i] / scale) * scale;
    }
  return out;
}

/// x as products of a few rows with int8 weights read it: each block of 32 rounded to multiples of
/// its largest magnitude / 32767.
Tensor rounded_to_16_bits(const Tensor& x) {
  auto v = x.to_vector<double>();
  const auto cols = static_cast<size_t>(x.size(1));
  for (size_t row = 0; row < v.size(); row += cols)
    for (size_t at = row; at < row + cols; at += 32) {
      const auto begin = v.begin() + static_cast<std::ptrdiff_t>(at),
                 end = begin + static_cast<std::ptrdiff_t>(std::min<size_t>(32, row + cols - at));
      double largest = 0;
      std::for_each(begin, end, [&](double e) { largest = std::max(largest, std::abs(e)); });
      const float scale = static_cast<float>(largest) / 32767.f;
      std::for_each(begin, end, [=](double& e) {
        e = std::nearbyint(static_cast<float>(e) / scale) * double{scale};
      });
    }
  return from_data(v, x.shape());
}

}  // namespace

TEST_CASE("bfloat16 rounds as PyTorch does", "[compression]") {
  // torch.tensor(...).to(torch.bfloat16).float()
  const std::vector<float> given{1,
                                 1.00390625,
                                 1.01171875,
                                 1.005f,
                                 -0.f,
                                 3.38953139e38f,
                                 3.3961775e38f,
                                 3.4e38f,
                                 -3.4028234e38f,
                                 1e-40f,
                                 9.2e-41f,
                                 std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity(),
                                 0.1f,
                                 -123.456f};
  const std::vector<double> expected{1,
                                     1,
                                     1.015625,
                                     1.0078125,
                                     -0.0,
                                     3.3895313892515355e38,
                                     inf,
                                     inf,
                                     -inf,
                                     9.183549615799121e-41,
                                     9.183549615799121e-41,
                                     inf,
                                     -inf,
                                     0.10009765625,
                                     -123.5};
  const Tensor x = from_data(given, {15});
  CHECK(x.to(bfloat16).dtype() == bfloat16);
  CHECK(x.to(bfloat16).to(float32).to_vector<double>() == expected);
  CHECK(std::signbit(x.to(bfloat16).to(float32)[4].item()));
  const Tensor nan = full({3}, std::nan("")).to(bfloat16).to(float32);
  CHECK(std::isnan(nan[0].item()));
}

TEST_CASE("int8 rounds to multiples of a scale per 32 elements", "[compression]") {
  SECTION("worked example: the largest element is 127, so the scale is 1") {
    const Tensor x = from_data<float>({127, 0.5, 1.5, -2.5, -126.6, 3.4}, {1, 6});
    CHECK(values(x.to(int8).to(float32)) == Values{127, 0, 2, -2, -127, 3});
  }
  SECTION("every length of a row") {
    manual_seed(1);
    for (const int64_t cols : {1, 2, 31, 32, 33, 63, 64, 65, 100, 257}) {
      CAPTURE(cols);
      const Tensor x = randn({5, cols}) * 10;
      CHECK(x.to(int8).to(float32).to_vector<double>() == quantised(x));
    }
  }
  SECTION("magnitudes from denormal to the largest finite number") {
    for (const double factor : {1e-45, 1e-38, 1e-30, 1., 1e30, 3.4e38}) {
      CAPTURE(factor);
      manual_seed(2);
      const Tensor x = (rand({3, 40}) * 2 - 1) * factor;
      const auto y = x.to(int8).to(float32).to_vector<double>();
      if (factor <= 1e-38)  // the scale would be denormal
        CHECK(y == std::vector<double>(y.size()));
      else
        CHECK(y == quantised(x));
    }
  }
  SECTION("zeros, and no elements at all") {
    CHECK(zeros({2, 50}).to(int8).to(float32).to_vector<double>() == std::vector<double>(100));
    for (const Shape& shape : {Shape{0, 5}, Shape{5, 0}, Shape{0, 0}})
      CHECK(zeros(shape).to(int8).to(float32).shape() == shape);
  }
}

TEST_CASE("linear and embedding compute with compressed weights", "[compression][fused]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  CAPTURE(dtype);
  for (const int64_t k : {0, 1, 7, 32, 45, 64, 300})
    for (const int64_t n : {1, 3, 21, 200})
      for (const int64_t m : {0, 1, 2, 3, 4, 5, 9, 12, 13, 50}) {
        CAPTURE(k, n, m);
        manual_seed(static_cast<uint64_t>(k * 1000 + n * 100 + m));
        const Tensor x = randn({m, k}), w = randn({n, k}).to(dtype), b = randn({n});
        const bool rounded = dtype == int8 && m <= kernel::few_compressed_rows;
        const Tensor exact = linear(rounded ? rounded_to_16_bits(x) : x.to(float64), w.to(float64));
        CHECK(difference(linear(x, w).to(float64), exact) < 1e-5);
        CHECK(difference(linear(x, w, b, Activation::gelu).to(float64),
                         activate(exact + b.to(float64), Activation::gelu)) < 1e-5);
      }
  const Tensor table = randn({10, 45}).to(dtype), ids = from_data<int64_t>({3, 0, 9, 3}, {2, 2});
  CHECK(difference(embedding(table, ids), embedding(table.to(float32), ids)) == 0);
  CHECK_THROWS_WITH(embedding(table, from_data<int64_t>({10}, {1})), Contains("id 10"));
}

TEST_CASE("int8 weights of long rows, whose scales are read in stretches of 64",
          "[compression][fused]") {
  for (const int64_t k : {2048, 2049, 2080, 4133})  // 64 blocks of 32, and more
    for (const int64_t m : {1, 5}) {
      CAPTURE(k, m);
      manual_seed(8);
      const Tensor x = randn({m, k}), w = randn({11, k}).to(int8);
      CHECK(difference(linear(x, w).to(float64), linear(rounded_to_16_bits(x), w.to(float64))) <
            1e-5);
    }
}

TEST_CASE("a scale of 2^-126, the smallest normal number, is not taken for 0", "[compression]") {
  const float least = 0x1p-126f;
  const Tensor w = from_data<float>({127 * least, -3 * least}, {1, 2});
  CHECK(values(w.to(int8).to(float32)) == values(w));
  // The kernel rounds each block of x to multiples of its largest element / 32767.
  const Tensor x = full({1, 1}, 32767 * double{least}), one = full({1, 1}, 127).to(int8);
  CHECK(linear(x, one).item() == 127 * 32767 * double{least});
}

TEST_CASE("a row of x with a NaN or an infinity makes its own row of y not finite, and no other",
          "[compression]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  for (const int64_t k : {5, 40, 64})
    for (const double bad : {inf, -inf, std::nan("")}) {
      CAPTURE(dtype, k, bad);
      const Tensor x = ones({3, k}), w = ones({9, k}).to(dtype);
      x[1][k - 1].fill_(bad);
      const Tensor y = linear(x, w);
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 9; ++j) CHECK(std::isfinite(y[i][j].item()) == (i != 1));
    }
}

TEST_CASE("gradients flow through compressed weights to x and biases", "[compression]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  manual_seed(3);
  const Tensor w1 = randn({70, 33}).to(dtype), w2 = randn({33, 70}).to(dtype);
  auto linear_by = [&](const Tensor& w) {
    return [=](std::vector<Tensor> in) { return linear(in[0], w, in[1], Activation::tanh); };
  };
  auto forward_by = [&](const Tensor& first, const Tensor& second) {
    return [=](std::vector<Tensor> in) {
      return feed_forward(in[0], first, in[1], Activation::gelu, second, in[2]);
    };
  };
  for (const int64_t rows : {2, 40}) {
    const std::vector<Tensor> inputs{randn({rows, 33}), randn({70}), randn({33})};
    // A few rows of x are rounded to 16 bits for int8 weights.
    const double tolerance = dtype == int8 && rows == 2 ? 2e-3 : 1e-5;
    CHECK(difference(linear_by(w1), linear_by(w1.to(float32)), {inputs[0], inputs[1]}) < tolerance);
    CHECK(difference(forward_by(w1, w2), forward_by(w1.to(float32), w2.to(float32)), inputs) <
          tolerance);
    // gradients of gradients take the composed form
    auto second = [&](const Tensor& w) {
      const Tensor x = inputs[0].detach().requires_grad_();
      const Tensor y = linear(x, w, inputs[1], Activation::tanh);
      const Tensor dx = grad({y.sum()}, {x}, {.create_graph = true})[0];
      return grad({(dx * dx).sum()}, {x})[0];
    };
    CHECK(difference(second(w1), second(w1.to(float32))) < 1e-4);
  }
}

TEST_CASE("compressed products give the same bits on any number of threads", "[compression]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  manual_seed(4);
  const Tensor w = randn({1000, 333}).to(dtype);
  for (const int64_t rows : {1, 6, 40}) {
    const Tensor x = randn({rows, 333});
    const int threads = num_threads();
    set_num_threads(1);
    const auto expected = values(linear(x, w));
    for (const int n : {2, 3}) {
      set_num_threads(n);
      CHECK(values(linear(x, w)) == expected);
    }
    set_num_threads(threads);
  }
}

TEST_CASE("compressed tensors copy, clone and convert", "[compression]") {
  manual_seed(5);
  const Tensor x = randn({4, 40}), q = x.to(int8), h = x.to(bfloat16);
  CHECK(difference(q.clone().to(float32), q.to(float32)) == 0);
  CHECK(difference(h.clone().to(float32), h.to(float32)) == 0);
  CHECK(difference(h.to(int8).to(float32), h.to(float32).to(int8).to(float32)) == 0);
  CHECK(difference(q.to(bfloat16).to(float32), q.to(float32).to(bfloat16).to(float32)) == 0);
  CHECK(difference(q.to(float64), q.to(float32).to(float64)) == 0);
  CHECK(difference(q.detach().to(float32), q.to(float32)) == 0);
  const Tensor target = zeros({4, 40}).to(int8);
  target.copy_(q);
  CHECK(difference(target.to(float32), q.to(float32)) == 0);
  CHECK_THAT(h.to_string(), Contains("bfloat16 (4, 40)"));
}

TEST_CASE("what compressed tensors cannot do is refused", "[compression]") {
  const Tensor x = ones({4, 40}), q = x.to(int8), h = x.to(bfloat16);
  CHECK_THROWS_WITH(ones({3}).to(int8), Contains("to: int8: expected a matrix, got shape (3,)"));
  CHECK_THROWS_WITH(ones({3}, float64).to(bfloat16),
                    Contains("to: only float32 converts to bfloat16, got float64"));
  for (const double bad : {inf, -inf, std::nan("")}) {
    const Tensor y = ones({2, 3});
    y[1][2].fill_(bad);
    CHECK_THROWS_WITH(y.to(int8),
                      Contains("to: int8: expected finite elements") && Contains("at (1, 2)"));
  }
  CHECK_THROWS_WITH(h * 2, Contains("got bfloat16"));
  CHECK_THROWS_WITH(matmul(x, h.mT()), Contains("float32 and bfloat16"));
  CHECK_THROWS_WITH(h.requires_grad_(), Contains("got bfloat16"));
  CHECK_THROWS_WITH(q.copy_(h), Contains("copy_: expected int8 (4, 40), got bfloat16 (4, 40)"));
  CHECK_THROWS_WITH(q.copy_(ones({4, 1}).to(int8)), Contains("copy_: expected int8 (4, 40)"));
  CHECK_THROWS_WITH(x.clone().copy_(q), Contains("got int8"));
  CHECK_THROWS_WITH(linear(ones({2, 20}), q.slice(1, 0, 20)), Contains("linear"));
  CHECK_THROWS_WITH(linear(ones({2, 40}), q.slice(0, 0, 2)), Contains("has no scales"));
  CHECK_THROWS_WITH(linear(ones({2, 4}), h.mT()), Contains("expected a contiguous bfloat16"));
  CHECK_THROWS_WITH(linear(ones({2, 40}, float64), q), Contains("got float64 and int8"));
  CHECK_THROWS_WITH(linear(ones({2, 41}), q), Contains("expected x (..., 40)"));
  CHECK_THROWS_WITH(q + q, "add: expected float32, float64 or int64, got int8");
  const std::string any = ": expected float32, float64, int64 or bool, got int8";
  CHECK_THROWS_WITH(eq(q, q), "eq" + any);
  CHECK_THROWS_WITH(max(q), "max" + any);
  CHECK_THROWS_WITH(cat({q, q}, 0), "cat" + any);
  CHECK_THROWS_WITH(flip(q, 1), "flip" + any);
  CHECK_THROWS_WITH(roll(q, 1, 0), "roll" + any);
  CHECK_THROWS_WITH(q.fill_(1), "fill_" + any);
  CHECK_THROWS_WITH(q.to_vector<float>(), "to_vector" + any);
  CHECK_THROWS_WITH(q[0][0].item(), "item" + any);
}

}  // namespace compression_test
