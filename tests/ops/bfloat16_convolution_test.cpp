// Convolutions in the mode Bfloat16Products, beside float64 convolutions of rounded operands. On
// processors without such products nothing is rounded on either side.

#include <catch2/catch.hpp>
#include <functional>

#include "gradus/gradus.h"
#include "tests/ops/rounded.h"
#include "tests/support/compare.h"

namespace bfloat16_convolution_test {

using namespace gradus;
using namespace gradus::testing;

namespace {

using Convolution = std::function<Tensor(const Tensor& x, const Tensor& weight)>;

/// Returns y, dx and dweight in x's dtype. Only the forward pass runs in the mode.
std::vector<Tensor> results(const Convolution& f, const Tensor& x, const Tensor& weight,
                            const Tensor& dy, bool products) {
  const Tensor image = x.clone().requires_grad_(), filters = weight.clone().requires_grad_();
  Tensor y;
  {
    const Bfloat16Products mode(products);
    y = f(image, filters);
  }
  std::vector<Tensor> all = grad({y}, {image, filters}, {.grad_outputs = {dy.to(y.dtype())}});
  all.insert(all.begin(), y.detach());
  return all;
}

/// Sums of 1,000 products in float32 beside float64.
constexpr double tolerance = 2e-5;

void check_rounded(const Convolution& f, const Shape& image, const Shape& filters) {
  manual_seed(5);
  const Tensor x = randn(image, float64), weight = randn(filters, float64);
  const Tensor dy = randn(f(x, weight).shape(), float64);
  const auto got = results(f, x.to(float32), weight.to(float32), dy, true);
  const auto expected = results(f, rounded(x), rounded(weight), rounded(dy), false);
  for (size_t i = 0; i < 3; ++i) {
    INFO("result " << i << " of " << image << " and " << filters);
    CHECK(norm(got[i].to(float64) - expected[i]).item<double>() <=
          tolerance * norm(expected[i]).item<double>());
  }
}

Convolution with(const Conv2dOptions& o) {
  return [o](auto& x, auto& weight) { return conv2d(x, weight, {}, o); };
}

}  // namespace

TEST_CASE("bfloat16 convolution: images of rounded operands, at all kinds of sizes", "[fused]") {
  for (int64_t channels : {1, 2, 3, 16, 33})
    for (int64_t filters : {1, 7, 32, 40}) {
      check_rounded(with(Conv2dOptions{}), {2, channels, 7, 9}, {filters, channels, 3, 3});
      check_rounded(with({.padding = 1}), {3, channels, 8, 8}, {filters, channels, 3, 3});
      check_rounded(with(Conv2dOptions{}), {2, channels, 5, 6}, {filters, channels, 1, 1});
    }
  for (int64_t height : {1, 2, 3, 4, 15, 33})
    for (int64_t width : {1, 2, 3, 4, 5, 16, 17, 31, 32, 33, 63})
      check_rounded(with({.padding = 1}), {2, 3, height, width}, {4, 3, 3, 3});
  check_rounded(with({.padding = 2}), {2, 3, 40, 41}, {5, 3, 5, 5});    // several blocks of windows
  check_rounded(with({.padding = 1}), {40, 4, 6, 5}, {8, 4, 3, 3});     // several parts
  check_rounded(with({.padding = 1}), {1, 40, 9, 9}, {64, 40, 3, 3});   // shares of the channels
  check_rounded(with({.padding = 1}), {2, 130, 4, 4}, {3, 130, 3, 3});  // several steps of sums
}

TEST_CASE("bfloat16 convolution: stride, padding, dilation and groups", "[fused]") {
  for (int64_t width : {9, 10, 11, 12, 20, 21}) {
    const Shape image{2, 6, 11, width};
    check_rounded(with({.stride = {2, 3}, .padding = {1, 2}}), image, {4, 6, 3, 2});
    check_rounded(with({.stride = {3, 4}}), image, {4, 6, 2, 3});
    check_rounded(with({.stride = {1, 2}, .padding = {2, 1}, .dilation = {3, 2}}), image,
                  {4, 6, 3, 3});
    check_rounded(with({.padding = 1, .groups = 2}), image, {4, 3, 3, 3});
    check_rounded(with({.stride = {2, 1}, .padding = 1, .groups = 6}), image, {12, 1, 3, 3});
    check_rounded(with({.padding = {3, 4}}), image, {4, 6, 2, 3});
    check_rounded(with({.stride = {1, 5}, .padding = {0, 3}}), image, {4, 6, 2, 2});
  }
}

TEST_CASE("bfloat16 convolution: sequences and transposed convolutions", "[fused]") {
  for (int64_t length : {5, 6, 17, 40}) {
    const auto sequence = [](auto& x, auto& weight) {
      return conv1d(x, weight, {}, {.stride = 2, .padding = 3, .dilation = 2, .groups = 2});
    };
    check_rounded(sequence, {3, 6, length}, {4, 3, 3});
    for (const ConvTranspose2dOptions& o :
         {ConvTranspose2dOptions{}, ConvTranspose2dOptions{.stride = 2, .padding = 1},
          ConvTranspose2dOptions{.stride = {2, 3},
          .padding = {1, 0},
          .output_padding = {1, 2},
          .groups = 2,
          .dilation = {2, 1}}}) {
      const auto transposed = [o](auto& x, auto& weight) {
        return conv_transpose2d(x, weight, {}, o);
      };
      check_rounded(transposed, {2, 6, 4, length}, {6, 5, 3, 3});
    }
  }
}

TEST_CASE("bfloat16 convolution: the bias is not rounded; empty batches; images alone") {
  manual_seed(7);
  const Tensor x = randn({12, 3, 6, 7}), weight = randn({5, 3, 3, 3});
  const Tensor bias = randn({5}).requires_grad_();
  const Bfloat16Products mode;
  const Tensor plain = conv2d(x, weight), y = conv2d(x, weight, bias);
  CHECK(values(y.detach()) == values(plain + bias.detach().reshape({5, 1, 1})));
  CHECK(values(grad({sum(y)}, {bias})[0]) == Values(5, 12.0 * 4 * 5));
  for (const int64_t n : {0, 11})
    CHECK(values(conv2d(x.slice(0, n, n + 1), weight)) == values(plain.slice(0, n, n + 1)));
  const Tensor filters = weight.clone().requires_grad_(), none = zeros({0, 3, 6, 7});
  CHECK(values(grad({sum(conv2d(none, filters))}, {filters})[0]) == Values(5 * 27, 0.0));
  const Tensor thin = zeros({2, 3, 6, 0}).requires_grad_();
  const Tensor padded = conv2d(thin, filters, {}, {.padding = {0, 2}});
  CHECK(values(padded.detach()) == Values(static_cast<size_t>(padded.numel()), 0.0));
  CHECK(grad({sum(padded)}, {thin})[0].shape() == thin.shape());
}

TEST_CASE("bfloat16 convolution: gradients under create_graph, and of gradients, agree") {
  manual_seed(8);
  const Tensor x = randn({2, 3, 6, 7}).requires_grad_(), w = randn({4, 3, 3, 3}).requires_grad_();
  const Bfloat16Products mode;
  const Tensor y = conv2d(x, w, {}, {.stride = {1, 2}, .padding = 1}), dy = randn(y.shape());
  const auto plain = grad({y}, {x, w}, {.grad_outputs = {dy}, .retain_graph = true});
  const auto recorded = grad({y}, {x, w}, {.grad_outputs = {dy}, .create_graph = true});
  for (size_t i = 0; i < 2; ++i) CHECK(difference(plain[i], recorded[i].detach()) < 1e-4);
  // The image's gradient is linear in w: differentiating its product with x gives dy's filters.
  const auto second = grad({sum(recorded[0] * x.detach())}, {w})[0];
  CHECK(difference(second, recorded[1].detach()) < 1e-4);
}

TEST_CASE("bfloat16 convolution: the same bits on any number of threads; float64 as it is") {
  manual_seed(6);
  const Tensor x = randn({13, 5, 21, 29}), weight = randn({33, 5, 3, 3});
  const Convolution f = with({.stride = {1, 2}, .padding = 1});
  const Tensor dy = randn(f(x, weight).shape());
  const auto on = [&](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    const auto all = results(f, x, weight, dy, true);
    set_num_threads(before);
    return all;
  };
  const auto one = on(1), plain = results(f, x, weight, dy, false);
  for (const int threads : {2, 3, 7}) {
    const auto many = on(threads);
    for (size_t i = 0; i < 3; ++i) CHECK(values(one[i]) == values(many[i]));
  }
  for (size_t i = 0; i < 3; ++i)
    CHECK((values(one[i]) == values(plain[i])) != has_bfloat16_products());
  const Tensor wide = x.to(float64), filters = weight.to(float64);
  const auto with_mode = results(f, wide, filters, dy, true);
  const auto without = results(f, wide, filters, dy, false);
  for (size_t i = 0; i < 3; ++i) CHECK(values(with_mode[i]) == values(without[i]));
}

}  // namespace bfloat16_convolution_test
