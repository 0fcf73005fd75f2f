// Convolution against PyTorch (cases in golden/scripts/make_convolution_golden.py), and properties
// that PyTorch cannot check: threads, magnitudes, strided views.

#include <catch2/catch.hpp>
#include <limits>

#include "gradus/core/runtime/threads.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"

namespace gradus::testing {

namespace {

struct Case {
  const char* name;
  Conv2dOptions options;
};
const std::vector<Case> cases{
    {"plain", {}},
    {"same", {.padding = 1}},
    {"one", {}},
    {"patches", {.stride = 4}},
    {"stride", {.stride = {2, 3}, .padding = {1, 2}}},
    {"gaps", {.stride = {3, 4}}},
    {"dilation", {.stride = {1, 2}, .padding = {2, 1}, .dilation = {3, 2}}},
    {"groups", {.padding = 1, .groups = 3}},
    {"depthwise", {.stride = {2, 1}, .padding = 1, .groups = 5}},
    {"wide_padding", {.padding = {3, 4}}},
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
      const Tensor y = conv2d(x, weight, bias, c.options);
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

}  // namespace gradus::testing
