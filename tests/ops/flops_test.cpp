// The FLOPs that a profile counts for each op with products: two per multiplication.

#include <catch2/catch.hpp>
#include <functional>

#include "gradus/core/core.h"

using namespace gradus;

namespace {

struct Flops {
  double forward, both;
  bool operator==(const Flops&) const = default;
};

/// The FLOPs of f in its forward pass, and with the backward pass.
Flops flops_of(const std::function<Tensor()>& f) {
  Profile profile;
  const auto all = [&] {
    double sum = 0;
    for (const ProfileRow& row : profile.rows()) sum += row.flops;
    return sum;
  };
  const Tensor y = f();
  const double forward = all();
  y.backward(ones(y.shape()));
  return {forward, all()};
}

Tensor input(const Shape& shape) { return ones(shape).requires_grad_(true); }

std::ostream& operator<<(std::ostream& out, const Flops& flops) {
  return out << flops.forward << ", " << flops.both;
}

}  // namespace

TEST_CASE("a profile counts the FLOPs of matrix products", "[profiler][fused]") {
  const Tensor a = input({3, 4}), b = input({4, 5}), fixed = ones({4, 5});
  const double product = 2 * 3 * 4 * 5;
  CHECK(flops_of([&] { return matmul(a, b); }) == Flops{product, 3 * product});
  CHECK(flops_of([&] { return matmul(a, fixed); }) == Flops{product, 2 * product});
  const Tensor x = input({7, 3, 4}), w = input({5, 4});
  CHECK(flops_of([&] { return linear(x, w); }) == Flops{7 * product, 3 * 7 * product});
  const Tensor many = input({7, 4, 5});
  CHECK(flops_of([&] { return matmul(x, many); }) == Flops{7 * product, 3 * 7 * product});
}

TEST_CASE("a profile counts the FLOPs of attention over the keys that a query sees",
          "[profiler][fused]") {
  const Tensor q = input({2, 4, 5, 8}), k = input({2, 2, 5, 8}), v = input({2, 2, 5, 6});
  const auto check = [&](double pairs, const AttentionOptions& o) {
    // Forward: q k^T and P v. Backward: q k^T again, dq, dk, and the gradients of P and v.
    const double heads = 2 * 4, with_keys = 2 * 8 * pairs * heads,
                 with_values = 2 * 6 * pairs * heads;
    CHECK(flops_of([&] { return scaled_dot_product_attention(q, k, v, o); }) ==
          Flops{with_keys + with_values, 4 * with_keys + 3 * with_values});
  };
  check(25, {});
  check(1 + 2 + 3 + 4 + 5, {.causal = true});
  check(1 + 2 + 3 + 3 + 3, {.causal = true, .window = 3});
}

TEST_CASE("a profile counts the FLOPs of convolutions", "[profiler][fused]") {
  // Each of 2 x 6 x 4 x 4 outputs takes 3 x 3 products of each of 3 channels.
  const Tensor x = input({2, 3, 6, 6}), w = input({6, 3, 3, 3}), bias = input({6});
  const double direct = 2.0 * (2 * 6 * 4 * 4) * (3 * 3 * 3);
  CHECK(flops_of([&] { return conv2d(x, w, bias); }) == Flops{direct, 3 * direct});
  CHECK(flops_of([&] { return conv2d(x.detach(), w, bias); }) == Flops{direct, 2 * direct});
  // Each of 2 x 6 x 4 x 4 inputs is multiplied with 3 x 3 weights of each of 3 channels.
  const Tensor z = input({2, 6, 4, 4});
  CHECK(flops_of([&] { return conv_transpose2d(z, w); }) == Flops{direct, 3 * direct});
}
