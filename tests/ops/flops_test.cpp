// The FLOPs that a profile counts for each op with products: two per multiplication.

#include <catch2/catch.hpp>
#include <functional>

#include "gradus/core/core.h"

namespace flops_test {

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

TEST_CASE("a profile counts the FLOPs of contrastive losses", "[profiler][fused]") {
  // The similarities, and a product for each gradient, all in the forward pass.
  const Tensor q = input({3, 5}), k = input({4, 5}), targets = zeros({3}, int64);
  const double product = 2 * 3 * 4 * 5;
  const auto loss = [&](const Tensor& queries, const Tensor& keys) {
    return [=] { return contrastive_cross_entropy(queries, keys, targets, {.cosine = false}); };
  };
  CHECK(flops_of(loss(q, k)) == Flops{3 * product, 3 * product});
  CHECK(flops_of(loss(q, k.detach())) == Flops{2 * product, 2 * product});
  CHECK(flops_of(loss(q.detach(), k)) == Flops{2 * product, 2 * product});
}

TEST_CASE("a profile counts the FLOPs of recurrent steps, without padding's", "[profiler][fused]") {
  // h W^T and dz W in each row's steps, 6, or 3 + 1 with lengths, and dW from all 6.
  const Tensor x = input({2, 3, 12}), w = input({12, 4});
  const double step = 2 * 12 * 4;
  const auto run = [&](const Tensor& lengths) {
    return [=] { return recurrent(Recurrence::gru, x, w, {}, {}, {.lengths = lengths}).output; };
  };
  CHECK(flops_of(run({})) == Flops{6 * step, (6 + 6 + 6) * step});
  CHECK(flops_of(run(tensor({3, 1}, int64))) == Flops{4 * step, (4 + 4 + 6) * step});
}

TEST_CASE("a profile counts the FLOPs of products with compressed weights", "[profiler][fused]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  const Tensor w = ones({5, 4}).to(dtype);
  for (const int64_t rows : {2, 50}) {
    const Tensor x = input({rows, 4});
    const double product = 2.0 * static_cast<double>(rows) * 4 * 5;
    CHECK(flops_of([&] { return linear(x, w); }) == Flops{product, 2 * product});
  }
}

}  // namespace flops_test
