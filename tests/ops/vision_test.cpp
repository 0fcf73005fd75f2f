// Pooling, interpolation and channel norms against PyTorch (cases in
// golden/scripts/make_vision_golden.py), and special values.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/core/runtime/threads.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

double within(Dtype dtype) { return dtype == float64 ? 1e-9 : 1e-4; }

const nn::BatchNormOptions plain{.affine = false};

}  // namespace

TEST_CASE("vision: pooling and interpolation are PyTorch's") {
  const golden::File file("vision");
  const InterpolateOptions bilinear{.mode = Interpolation::bilinear};
  const InterpolateOptions corners{.mode = Interpolation::bilinear, .align_corners = true};
  const AvgPool2dOptions padded{.stride = {2, 1}, .padding = 1};
  AvgPool2dOptions not_counted = padded;
  not_counted.count_include_pad = false;
  const std::vector<std::pair<std::string, nn::Sequential>> layers{
      {"max_2", nn::Sequential(nn::MaxPool2d(2))},
      {"max_padded", nn::Sequential(nn::MaxPool2d({3, 2}, {.stride = {2, 1}, .padding = 1}))},
      {"max_dilated",
       nn::Sequential(nn::MaxPool2d({2, 3}, {.stride = 1, .padding = {0, 1}, .dilation = {3, 2}}))},
      {"mean_2", nn::Sequential(nn::AvgPool2d(2))},
      {"mean_padded", nn::Sequential(nn::AvgPool2d({3, 2}, padded))},
      {"mean_not_counted", nn::Sequential(nn::AvgPool2d({3, 2}, not_counted))},
      {"adaptive_less", nn::Sequential(nn::AdaptiveAvgPool2d({3, 2}))},
      {"adaptive_more", nn::Sequential(nn::AdaptiveAvgPool2d({11, 1}))},
      {"nearest_less", nn::Sequential(nn::Upsample({3, 5}))},
      {"nearest_more", nn::Sequential(nn::Upsample({16, 9}))},
      {"bilinear_less", nn::Sequential(nn::Upsample({3, 5}, bilinear))},
      {"bilinear_more", nn::Sequential(nn::Upsample({16, 9}, bilinear))},
      {"corners_less", nn::Sequential(nn::Upsample({3, 1}, corners))},
      {"corners_more", nn::Sequential(nn::Upsample({16, 9}, corners))}};
  for (const Dtype dtype : {float64, float32})
    for (const auto& [name, layer] : layers) {
      INFO(name << " " << dtype);
      const Tensor x = file.get(name + ".x", dtype).requires_grad_();
      const Tensor y = layer(x), dy = file.get(name + ".dy", dtype);
      CHECK(golden::difference(y, file.get(name + ".y")) < within(dtype));
      y.backward(dy);
      CHECK(golden::difference(x.grad(), file.get(name + ".dx")) < within(dtype));
      CHECK(golden::difference(layer(x.detach()[0]), file.get(name + ".y")[0]) < within(dtype));
    }
}

TEST_CASE("vision: nearest interpolation takes PyTorch's pixels") {
  const golden::File file("vision");
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 82}, {2, 98}, {3, 7}, {7, 3}, {41, 29}, {7, 147}, {49, 101}, {100, 41}, {53, 230}})
    for (const Dtype dtype : {float32, float64}) {
      INFO(n << " to " << m << " " << dtype);
      const Tensor x = arange(0, static_cast<double>(n), 1, dtype);
      const std::string name = "nearest." + std::to_string(n) + "." + std::to_string(m) + "." +
                               (dtype == float32 ? "single" : "double");
      const Tensor wanted = file.get(name);
      CHECK(golden::same(interpolate(x.reshape({1, n}), {1, m}).flatten().to(int64), wanted));
      CHECK(golden::same(interpolate(x.reshape({n, 1}), {m, 1}).flatten().to(int64), wanted));
    }
}

TEST_CASE("vision: channel norms are PyTorch's, in three training steps and in evaluation") {
  const golden::File file("vision");
  auto compare = [&](const std::string& name, nn::Module& layer, auto& call, Dtype dtype) {
    INFO(name << " " << dtype);
    layer.to(dtype);
    layer.load_state_dict(file.with_prefix(name + ".param.", dtype), false);
    auto step = [&](const std::string& which) {
      INFO("step " << which);
      auto get = [&](const char* what) { return file.get(name + what + which, dtype); };
      const Tensor x = get(".x.").requires_grad_(), y = call(x);
      y.backward(get(".dy."));
      CHECK(golden::difference(y, get(".y.")) < within(dtype));
      CHECK(golden::difference(x.grad(), get(".dx.")) < within(dtype));
      for (const auto& [buffer, tensor] : layer.named_buffers())
        CHECK(golden::difference(tensor, get(("." + buffer + ".").c_str())) < within(dtype));
    };
    for (const char* which : {"0", "1", "2"}) step(which);
    {
      const EvalMode eval;
      step("eval");
    }
    for (const auto& [parameter, tensor] : layer.named_parameters())
      CHECK(golden::difference(tensor.grad(), file.get(name + ".grad." + parameter)) <
            within(dtype));
  };
  for (const Dtype dtype : {float64, float32}) {
    nn::BatchNorm1d short_rows(3), rows(3, {.momentum = 0.3});
    nn::BatchNorm2d images(3, {.eps = 1e-3}), bare(3, plain);
    nn::GroupNorm groups(3, 6);
    compare("batch_1d", short_rows, short_rows, dtype);
    compare("batch_1d_long", rows, rows, dtype);
    compare("batch_2d", images, images, dtype);
    compare("batch_plain", bare, bare, dtype);
    compare("group", groups, groups, dtype);
  }
}

TEST_CASE("vision: a batch norm's parameters and buffers have PyTorch's names") {
  const nn::BatchNorm2d layer(2);
  std::string names;
  for (const auto& [name, tensor] : layer.state_dict()) names += name + " ";
  CHECK(names == "weight bias running_mean running_var ");
  CHECK(values(layer.running_var) == Values{1, 1});
  CHECK(nn::BatchNorm1d(2, plain).parameters().empty());
  CHECK(error_of([] { nn::BatchNorm2d(0); }).starts_with("BatchNorm: "));
  CHECK(error_of([] { nn::BatchNorm2d(2, {.momentum = 1.5}); }).starts_with("BatchNorm: "));
  CHECK(error_of([] { nn::GroupNorm(2, 3); }) ==
        "GroupNorm: groups must divide channels and eps be >= 0: channels 3, groups 2, eps 1e-05");
}

TEST_CASE("vision: running statistics are updated once per forward call, and not on an error") {
  const nn::BatchNorm2d layer(2, {.affine = false});
  manual_seed(3);
  const Tensor x = randn({3, 2, 4, 5}).requires_grad_();
  const Tensor y = layer(x);
  const Values mean = values(layer.running_mean), var = values(layer.running_var);
  CHECK(difference(layer.running_mean, values(sum(x.detach(), {0, 2, 3}) / 600)) < 1e-6);
  const Tensor dx = grad({sum(y * y * y)}, {x}, {.create_graph = true})[0];
  sum(dx * dx).backward();
  CHECK(values(layer.running_mean) == mean);
  CHECK(values(layer.running_var) == var);
  for (const Tensor& bad : {randn({1, 2, 1, 1}), randn({3, 3, 4}), randn({3, 2}, float64)})
    CHECK(!error_of([&] { layer(bad); }).empty());
  CHECK(layer(zeros({0, 2, 4, 5})).shape() == Shape{0, 2, 4, 5});
  const EvalMode eval;
  layer(x);
  layer(zeros({0, 2, 4, 5}));
  layer(randn({1, 2, 1, 1}));
  CHECK(values(layer.running_mean) == mean);
  CHECK(values(layer.running_var) == var);
}

TEST_CASE("vision: batch_norm's statistics at every magnitude") {
  manual_seed(5);
  const Tensor z = randn({6, 2, 40}, float64);
  for (const double size : {1e-30, 1e-10, 1.0, 1e10, 1e30}) {
    INFO(size);
    const Tensor x = (z * size).to(float32).requires_grad_();
    const BatchNormOutput out = batch_norm(x, {}, {}, 0), wanted = batch_norm(z, {}, {}, 0);
    CHECK(difference(out.y.to(float64), wanted.y) < 1e-5);
    CHECK(difference((out.mean.to(float64) / size), wanted.mean) < 1e-6);
    if (size < 1e15 && size > 1e-15)
      CHECK(difference((out.var.to(float64) / (size * size)), wanted.var) < 1e-5);
    CHECK(!out.mean.requires_grad());
  }
  // Far from zero they are as exact as the mean: E[x^2] - E[x]^2 would lose three digits.
  const Tensor far = (randint(-4, 5, {5, 3, 4, 6}).to(float64) + 1e3).to(float32);
  CHECK(difference(batch_norm(far).y.to(float64), batch_norm(far.to(float64)).y) < 3e-5);
  // Constants and denormals.
  CHECK(values(batch_norm(full({2, 1, 3}, 7.5)).y) == Values(6, 0.0));
  CHECK(difference(batch_norm(full({4, 2, 20}, 1e-40)).y, Values(160, 0.0)) < 1e-6);
  // A channel that is not finite does not affect the others.
  const Tensor x = tensor({{{1, inf}, {1, 3}}, {{2, 0}, {1, 3}}});
  for (const double v : values(batch_norm(x).y.select(1, 0))) CHECK(std::isnan(v));
  CHECK(difference(batch_norm(x, {}, {}, 0).y.select(1, 1), {-1, 1, -1, 1}) < 1e-6);
  for (const double v : values(batch_norm(zeros({0, 2, 3})).mean)) CHECK(std::isnan(v));
}

TEST_CASE("vision: max_pool2d of ties, infinities and NaN") {
  for (const Dtype dtype : {float32, float64})
    for (const MaxPool2dOptions& o :
         {MaxPool2dOptions{},
          MaxPool2dOptions{.stride = {2, 3}}}) {  // the 2 x 2 kernel and the general one
      auto check_one = [&](const Values& window, double largest, const Values& dx) {
        const Tensor x = from_data(window, {1, 2, 2}).to(dtype).clone().requires_grad_();
        const Tensor y = max_pool2d(x, 2, o);
        CHECK(difference(y, {largest}) == 0);
        y.backward(ones_like(y));
        CHECK(values(x.grad()) == dx);
      };
      check_one({1, 1, 1, 1}, 1, {1, 0, 0, 0});
      check_one({0, 2, 2, 1}, 2, {0, 1, 0, 0});
      check_one({-inf, -inf, -inf, -inf}, -inf, {1, 0, 0, 0});
      check_one({-inf, -inf, -3, -inf}, -3, {0, 0, 1, 0});
      check_one({1, inf, 2, inf}, inf, {0, 1, 0, 0});
      check_one({not_a_number, inf, 1, 0}, not_a_number, {1, 0, 0, 0});
      check_one({0, 1, inf, not_a_number}, not_a_number, {0, 0, 0, 1});
    }
  // Padding is never the maximum, and an infinite gradient reaches its own element only.
  const Tensor x = full({1, 3, 3}, -5).requires_grad_();
  const Tensor y = max_pool2d(x, 3, {.stride = 2, .padding = 1});
  CHECK(values(y) == Values(4, -5.0));
  y.backward(tensor({{{inf, 0}, {0, 1}}}));
  CHECK(values(x.grad()) == Values{inf, 0, 0, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("vision: a value that is not finite reaches only the pixels that depend on it") {
  for (const double odd : {inf, not_a_number}) {
    const Tensor x = tensor({{odd, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}});
    for (const Tensor& y : {avg_pool2d(x, 2), adaptive_avg_pool2d(x, 2), interpolate(x, 2),
                            interpolate(x, 2, {.mode = Interpolation::bilinear})}) {
      CHECK(!std::isfinite(y[0][0].item()));
      for (const auto& [i, j] : {std::pair{0, 1}, {1, 0}, {1, 1}})
        CHECK(std::isfinite(y[i][j].item()));
    }
    const Tensor corners =
        interpolate(x, 7, {.mode = Interpolation::bilinear, .align_corners = true});
    CHECK(sum(isnan(corners * 0.0)).item<int64_t>() == 4);
  }
}

TEST_CASE("vision: Flatten and pooling in a Sequential") {
  const nn::Sequential net(nn::MaxPool2d(2), nn::AdaptiveAvgPool2d(1), nn::Flatten());
  CHECK(net(zeros({5, 3, 9, 8})).shape() == Shape{5, 3});
  CHECK(net(zeros({0, 3, 9, 8})).shape() == Shape{0, 3});
}

}  // namespace gradus::testing
