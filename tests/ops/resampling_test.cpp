// Pooling and interpolation against PyTorch (golden/scripts/make_vision_golden.py), and edge cases.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace gradus::testing::resampling_test {
using namespace gradus::core;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

double within(Dtype dtype) { return dtype == float64 ? 1e-9 : 1e-4; }

}  // namespace

TEST_CASE("pooling and interpolation equal PyTorch's") {
  const golden::File file("vision");
  const InterpolateOptions bilinear{.mode = Interpolation::bilinear};
  const InterpolateOptions corners{.mode = Interpolation::bilinear, .align_corners = true};
  const AvgPool2dOptions padded{.stride = {2, 1}, .padding = 1};
  AvgPool2dOptions not_counted = padded;
  not_counted.count_include_pad = false;
  const std::vector<std::pair<std::string, nn::Sequential>> layers{
      {"max_2", nn::Sequential{nn::MaxPool2d(2)}},
      {"max_padded", nn::Sequential{nn::MaxPool2d({3, 2}, {.stride = {2, 1}, .padding = 1})}},
      {"max_dilated",
       nn::Sequential{nn::MaxPool2d({2, 3}, {.stride = 1, .padding = {0, 1}, .dilation = {3, 2}})}},
      {"mean_2", nn::Sequential{nn::AvgPool2d(2)}},
      {"mean_padded", nn::Sequential{nn::AvgPool2d({3, 2}, padded)}},
      {"mean_not_counted", nn::Sequential{nn::AvgPool2d({3, 2}, not_counted)}},
      {"adaptive_less", nn::Sequential{nn::AdaptiveAvgPool2d({3, 2})}},
      {"adaptive_more", nn::Sequential{nn::AdaptiveAvgPool2d({11, 1})}},
      {"nearest_less", nn::Sequential{nn::Upsample({3, 5})}},
      {"nearest_more", nn::Sequential{nn::Upsample({16, 9})}},
      {"bilinear_less", nn::Sequential{nn::Upsample({3, 5}, bilinear)}},
      {"bilinear_more", nn::Sequential{nn::Upsample({16, 9}, bilinear)}},
      {"corners_less", nn::Sequential{nn::Upsample({3, 1}, corners)}},
      {"corners_more", nn::Sequential{nn::Upsample({16, 9}, corners)}}};
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

TEST_CASE("nearest interpolation takes the pixels that PyTorch takes") {
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

TEST_CASE("max_pool2d of ties, infinities and NaN") {
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
  // Padding is never the maximum, and an infinite gradient reaches only its own pixel.
  const Tensor x = full({1, 3, 3}, -5).requires_grad_();
  const Tensor y = max_pool2d(x, 3, {.stride = 2, .padding = 1});
  CHECK(values(y) == Values(4, -5.0));
  y.backward(tensor({{{inf, 0}, {0, 1}}}));
  CHECK(values(x.grad()) == Values{inf, 0, 0, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("max_pool2d: windows and planes at the limits of what fits") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  // Taps two apart, on one pixel each.
  CHECK(values(max_pool2d(x, 2, {.stride = 1, .padding = 1, .dilation = 2})) == Values{4, 3, 2, 1});
  CHECK(values(max_pool2d(x, 1, {.dilation = 3})) == Values{1, 2, 3, 4});
  CHECK(values(max_pool2d(x, 2, {.stride = INT32_MAX})) == Values{4});
  CHECK(error_of([&] {
          max_pool2d(x, 2, {.stride = int64_t{INT32_MAX} + 1});
        }).starts_with("max_pool2d: a window of 2 with stride 2147483648"));
  // Positions in a plane are 32-bit.
  const int64_t wide = 1 << 16;
  CHECK(max_pool2d(zeros({0, wide / 2 - 1, wide}), 2).shape() == Shape{0, wide / 4 - 1, wide / 2});
  CHECK(error_of([&] {
          max_pool2d(zeros({0, wide / 2, wide}), 2);
        }) == "max_pool2d: a plane of x (0, 32768, 65536) is too large");
}

TEST_CASE("NaN and infinity reach only the pixels computed from them") {
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

TEST_CASE("Flatten and pooling in a Sequential") {
  const nn::Sequential net{nn::MaxPool2d(2), nn::AdaptiveAvgPool2d(1), nn::Flatten()};
  CHECK(net(zeros({5, 3, 9, 8})).shape() == Shape{5, 3});
  CHECK(net(zeros({0, 3, 9, 8})).shape() == Shape{0, 3});
}

}  // namespace gradus::testing::resampling_test
