// Convolution against PyTorch (cases in golden/scripts/make_convolution_golden.py), and properties
// that PyTorch cannot check: threads, magnitudes, strided views.

#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "gradus/core/runtime/threads.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"

namespace gradus::testing::convolution_test {

namespace {

using Convolution = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>;

Convolution with(const Conv2dOptions& o) {
  return [o](auto& x, auto& weight, auto& bias) { return conv2d(x, weight, bias, o); };
}
Convolution with(const Conv1dOptions& o) {
  return [o](auto& x, auto& weight, auto& bias) { return conv1d(x, weight, bias, o); };
}
Convolution with(const ConvTranspose2dOptions& o) {
  return [o](auto& x, auto& weight, auto& bias) { return conv_transpose2d(x, weight, bias, o); };
}

struct Case {
  const char* name;
  Convolution convolve;
};
const std::vector<Case> cases{
    {"plain", with(Conv2dOptions{})},
    {"same", with(Conv2dOptions{.padding = 1})},
    {"one", with(Conv2dOptions{})},
    {"patches", with(Conv2dOptions{.stride = 4})},
    {"stride", with(Conv2dOptions{.stride = {2, 3}, .padding = {1, 2}})},
    {"gaps", with(Conv2dOptions{.stride = {3, 4}})},
    {"dilation", with(Conv2dOptions{.stride = {1, 2}, .padding = {2, 1}, .dilation = {3, 2}})},
    {"groups", with(Conv2dOptions{.padding = 1, .groups = 3})},
    {"depthwise", with(Conv2dOptions{.stride = {2, 1}, .padding = 1, .groups = 5})},
    {"wide_padding", with(Conv2dOptions{.padding = {3, 4}})},
    {"sequence", with(Conv1dOptions{})},
    {"sequence_options",
     with(Conv1dOptions{.stride = 2, .padding = 3, .dilation = 2, .groups = 2})},
    {"sequence_patches", with(Conv1dOptions{.stride = 4})},
    {"transposed", with(ConvTranspose2dOptions{})},
    {"doubled", with(ConvTranspose2dOptions{.stride = 2, .padding = 1})},
    {"transposed_options", with(ConvTranspose2dOptions{.stride = {2, 3},
                                                       .padding = {1, 0},
                                                       .output_padding = {1, 2},
                                                       .groups = 2,
                                                       .dilation = {2, 1}})},
    {"transposed_gaps", with(ConvTranspose2dOptions{.stride = {3, 4}, .output_padding = {0, 3}})},
    {"transposed_dilation",
     with(ConvTranspose2dOptions{.padding = {2, 1}, .output_padding = {1, 0}, .dilation = {3, 2}})},
    {"transposed_depthwise",
     with(ConvTranspose2dOptions{.stride = 2, .padding = 1, .output_padding = 1, .groups = 5})},
};

Tensor leaf(Tensor x) { return x.requires_grad_(); }

}  // namespace

TEST_CASE("convolution: outputs and gradients equal PyTorch's", "[convolution][golden]") {
  const golden::File file("convolution");
  for (const Case& c : cases)
    for (const Dtype dtype : {float64, float32}) {
      INFO(c.name << " in " << dtype);
      const double tolerance = dtype == float64 ? 1e-9 : 1e-4;
      auto get = [&](const char* what) {
        return file.get(std::string(c.name) + "." + what, dtype);
      };
      const Tensor x = leaf(get("x")), weight = leaf(get("weight")), bias = leaf(get("bias"));
      const Tensor y = c.convolve(x, weight, bias);
      CHECK(golden::difference(y, get("y")) < tolerance);
      sum(y * get("dy")).backward();
      CHECK(golden::difference(x.grad(), get("dx")) < tolerance);
      CHECK(golden::difference(weight.grad(), get("dweight")) < tolerance);
      CHECK(golden::difference(bias.grad(), get("dbias")) < tolerance);
    }
}

TEST_CASE("convolution: the same bits at any number of threads, alone and in a batch",
          "[convolution]") {
  const int before = num_threads();
  const Tensor x = leaf(randn({13, 5, 37, 29})), weight = leaf(randn({33, 5, 3, 3}));
  auto run = [&](int threads) {
    set_num_threads(threads);
    const Tensor y = conv2d(x, weight, {}, {.stride = {1, 2}, .padding = 1});
    std::vector<Tensor> all = grad({sum(y * y)}, {x, weight});
    all.push_back(y.detach());
    set_num_threads(before);
    return all;
  };
  const std::vector<Tensor> one = run(1);
  for (const int threads : {2, 3, 7}) {
    const std::vector<Tensor> many = run(threads);
    for (size_t i = 0; i < one.size(); ++i) CHECK(golden::same(one[i], many[i]));
  }
  for (const int64_t n : {0, 12}) {
    const Tensor alone = conv2d(x.slice(0, n, n + 1), weight, {}, {.stride = {1, 2}, .padding = 1});
    CHECK(golden::same(alone.detach(), one[2].slice(0, n, n + 1)));
  }
}

TEST_CASE("convolution: a value reaches only the windows that contain it", "[convolution]") {
  const Bfloat16Products products(GENERATE(false, true));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {infinity, std::numeric_limits<double>::quiet_NaN()}) {
    Tensor x = ones({1, 1, 6, 35});
    x.slice(2, 0, 1).slice(3, 0, 1).fill_(value);
    const Tensor y = conv2d(x, ones({2, 1, 3, 3}));
    const std::vector<float> all = y.to_vector<float>();
    for (size_t i = 0; i < all.size(); ++i)
      if (i % (4 * 33) == 0)
        CHECK_FALSE(std::isfinite(all[i]));
      else
        CHECK(all[i] == 9);
  }
}

TEST_CASE("convolution: small and large magnitudes", "[convolution]") {
  const Tensor x = rand({1, 3, 5, 5}, float64) + 0.5, weight = rand({2, 3, 3, 3}, float64) - 2;
  const Tensor expected = conv2d(x, weight);
  for (const double scale : {1e-36, 1e-20, 1e18, 1e36}) {
    const Tensor y = conv2d((x * scale).to(float32), (weight / scale).to(float32));
    CHECK(golden::difference(y, expected) < 1e-6);
  }
}

TEST_CASE("convolution: a value reaches only the gradients of the taps that meet it",
          "[convolution][fused]") {
  const Bfloat16Products products(GENERATE(false, true));
  const double value = GENERATE(std::numeric_limits<double>::infinity(), std::nan(""));
  for (const int64_t width : {3, 8, 9, 10, 11}) {
    const int64_t out = (width - 3) / 2 + 1;
    for (int64_t column = 0; column < width; ++column) {
      CAPTURE(width, column, value);
      Tensor x = ones({1, 2, 3, width});
      x.select(1, 1).select(1, 2).slice(1, column, column + 1).fill_(value);
      const Tensor weight = leaf(ones({3, 2, 3, 3}));
      const Tensor d = grad({sum(conv2d(x, weight, {}, {.stride = 2}))}, {weight})[0];
      for (int64_t tap = 0; tap < 9; ++tap) {
        const int64_t window = (column - tap % 3) / 2;
        const bool meets =
            tap / 3 == 2 && column >= tap % 3 && (column - tap % 3) % 2 == 0 && window < out;
        for (int64_t o = 0; o < 3; ++o) {
          const auto of = [&](int64_t c) { return d.to_vector<double>()[(o * 2 + c) * 9 + tap]; };
          CHECK(of(0) == static_cast<double>(out));
          if (meets)
            CHECK_FALSE(std::isfinite(of(1)));
          else
            CHECK(of(1) == static_cast<double>(out));
        }
      }
    }
  }
}

TEST_CASE("convolution: the largest stride and dilation", "[convolution]") {
  const Bfloat16Products products(GENERATE(false, true));
  constexpr int64_t most = int64_t{1} << 30;
  const Tensor x = full({1, 1, 1, 2}, 3), one = full({1, 1, 1, 1}, 2);
  CHECK(golden::same(conv2d(x, one, {}, {.stride = most}), full({1, 1, 1, 1}, 6)));
  CHECK(golden::same(conv2d(x, one, {}, {.dilation = most}), full({1, 1, 1, 2}, 6)));
  const Tensor filter = leaf(one.clone());
  const Tensor d = grad({sum(conv2d(x, filter, {}, {.stride = most}))}, {filter})[0];
  CHECK(golden::same(d, full({1, 1, 1, 1}, 3)));
}

TEST_CASE("convolution: an image that is too large is named, not the options", "[convolution]") {
  constexpr int64_t size = (int64_t{1} << 30) + 1;
  const Tensor x = zeros({1, 1, 1}).expand({1, 1, size});
  CHECK_THROWS_WITH(conv1d(x, zeros({1, 1, 1})),
                    "conv1d: expected x and weight up to 2^30 along the length, got 1073741825 "
                    "and 1");
}

TEST_CASE("convolution: gradients of strided views of x and of the filters", "[convolution]") {
  const Tensor x = leaf(randn({4, 6, 5, 2}, float64)), weight = leaf(randn({3, 3, 2, 4}, float64));
  auto views = [&] {
    return std::pair{x.permute({3, 0, 1, 2}), weight.permute({3, 1, 0, 2}).slice(1, 0, 2)};
  };
  const Tensor wide = x.permute({3, 0, 1, 2}).contiguous().slice(1, 0, 2);
  const Tensor y = conv2d(views().first.slice(1, 0, 2), views().second);
  const Tensor same = conv2d(wide.contiguous(), views().second.contiguous());
  CHECK(golden::difference(y, same) < 1e-14);
  const auto a = grad({sum(y * y)}, {x, weight}), b = grad({sum(same * same)}, {x, weight});
  for (size_t i = 0; i < 2; ++i) CHECK(golden::difference(a[i], b[i]) < 1e-14);
}

TEST_CASE("Conv2d: parameters like PyTorch's", "[convolution]") {
  manual_seed(0);
  const nn::Conv2d layer(6, 9, {3, 5}, {.stride = 2, .padding = {1, 2}, .groups = 3});
  CHECK(layer.weight.shape() == Shape{9, 2, 3, 5});
  CHECK(layer.bias.shape() == Shape{9});
  CHECK(layer(randn({2, 6, 11, 12})).shape() == Shape{2, 9, 6, 6});
  const double bound = 1 / std::sqrt(2.0 * 15);  // kaiming_uniform with a = sqrt 5
  CHECK(max(abs(layer.weight.detach())).item() <= bound);
  CHECK(max(abs(layer.weight.detach())).item() > 0.9 * bound);
  CHECK_FALSE(nn::Conv2d(1, 1, 3, {.bias = false}).bias.defined());
  CHECK_THROWS_WITH(nn::Conv2d(4, 6, 3, {.groups = 3}),
                    Catch::Matchers::Contains("groups must divide the channels: in 4, out 6"));
}

TEST_CASE("Conv1d and ConvTranspose2d: parameters like PyTorch's", "[convolution]") {
  manual_seed(0);
  const nn::Conv1d sequence(6, 9, 5, {.stride = 2, .padding = 1, .dilation = 2, .groups = 3});
  CHECK(sequence.weight.shape() == Shape{9, 2, 5});
  CHECK(sequence.bias.shape() == Shape{9});
  const Tensor x = randn({2, 6, 13});
  CHECK(golden::same(sequence(x), conv1d(x, sequence.weight, sequence.bias,
                                         {.stride = 2, .padding = 1, .dilation = 2, .groups = 3})));
  CHECK(sequence(x).shape() == Shape{2, 9, 4});
  const nn::ConvTranspose2d image(
      6, 9, {3, 5},
      {.stride = 2, .padding = {1, 2}, .output_padding = {1, 0}, .groups = 3, .dilation = {1, 2}});
  CHECK(image.weight.shape() == Shape{6, 3, 3, 5});
  CHECK(image.bias.shape() == Shape{9});
  CHECK(image(randn({2, 6, 7, 8})).shape() == Shape{2, 9, 14, 19});
  // kaiming_uniform with a = sqrt 5: fan_in is the second axis times the kernel.
  for (const auto& [parameter, fan_in] : {std::pair{sequence.weight, 10},
                                          {sequence.bias, 10},
                                          {image.weight, 45},
                                          {image.bias, 45}}) {
    const double bound = 1 / std::sqrt(fan_in), largest = max(abs(parameter.detach())).item();
    CHECK(largest <= bound);
    CHECK(largest > 0.7 * bound);
  }
  CHECK_FALSE(nn::Conv1d(1, 1, 3, {.bias = false}).bias.defined());
  CHECK_FALSE(nn::ConvTranspose2d(1, 1, 3, {.bias = false}).bias.defined());
  CHECK(nn::Conv1d(1, 2, 3).hidden_matrices().size() == 1);
  CHECK(nn::Conv1d(1, 2, 3, {.hidden = false}).hidden_matrices().empty());
  CHECK(nn::ConvTranspose2d(1, 2, 3).hidden_matrices().size() == 1);
  CHECK(nn::ConvTranspose2d(1, 2, 3, {.hidden = false}).hidden_matrices().empty());
  CHECK_THROWS_WITH(nn::Conv1d(4, 6, 3, {.groups = 3}),
                    Catch::Matchers::Contains("Conv1d: groups must divide the channels: in 4"));
  CHECK_THROWS_WITH(nn::ConvTranspose2d(6, 4, 3, {.groups = 3}),
                    Catch::Matchers::Contains("ConvTranspose2d: groups must divide the channels"));
}

}  // namespace gradus::testing::convolution_test
