// Augmentation: ranges of rectangles and blurs, planes of several channels, limits of options.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/ops/ops.h"
#include "gradus/models/data/images/augment.h"
#include "tests/support/compare.h"

namespace augment_ranges_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;
using models::augment;
using models::AugmentOptions;

namespace {

/// Checks minimum, maximum, mean and variance of numbers drawn uniformly from low to high, each
/// known up to `error`.
void check_uniform(const Values& x, double low, double high, double error) {
  const auto n = static_cast<double>(x.size());
  double mean = 0;
  for (const double v : x) mean += v / n;
  const double range = high - low, least = *std::min_element(x.begin(), x.end()),
               most = *std::max_element(x.begin(), x.end());
  CHECK((least > low - error && least < low + 4 * range / n + error));
  CHECK((most < high + error && most > high - 4 * range / n - error));
  CHECK(std::abs(mean - (low + high) / 2) < 6 * range / std::sqrt(12 * n) + error);
  double variance = 0;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  // The squared deviation has the variance range^4 / 180.
  CHECK(std::abs(variance - range * range / 12) <
        6 * range * range / std::sqrt(180 * n) + range * error);
}

}  // namespace

TEST_CASE("augment: area and aspect ratio of erased rectangles", "[images]") {
  constexpr int64_t n = 1000, side = 100;
  const Tensor blank = augment(ones({n, 1, side, side}), {.erase = 1}, 4, 0) == 0;
  const Values rows = values(any(blank, 3).to(float32).sum({1, 2})),
               columns = values(any(blank, 2).to(float32).sum({1, 2}));
  Values areas, ratios;
  for (size_t i = 0; i < rows.size(); ++i) {
    areas.push_back(rows[i] * columns[i] / (side * side));
    ratios.push_back(std::log(rows[i] / columns[i]));
  }
  check_uniform(areas, 0.02, 0.3, 0.004);
  CHECK(*std::min_element(areas.begin(), areas.end()) < 0.0225);
  check_uniform(ratios, -std::log(3.3), std::log(3.3), 0.06);
}

TEST_CASE("augment: deviations of small blurs", "[images]") {
  constexpr int64_t n = 500;
  const Tensor dots = zeros({n, 1, 7, 7});
  for (int64_t i = 0; i < n; ++i) dots.data<float>()[i * 49 + 24] = 1;
  const Tensor y = augment(dots, {.blur = 1, .blur_sigma = 0.5}, 2, 0);
  Values deviations;
  for (int64_t i = 0; i < n; ++i) {
    const double ratio = y[i][0][3][3].item() / y[i][0][3][4].item();
    deviations.push_back(std::sqrt(1 / (2 * std::log(ratio))));
  }
  check_uniform(deviations, 0.1, 0.5, 1e-3);
}

TEST_CASE("augment: a blur of each channel of an image wider than high", "[images]") {
  // The first channel, a dot, shows the deviation; the others follow from its definition.
  constexpr int64_t height = 9, width = 14;
  const NoGrad no_grad;
  manual_seed(5);
  const Tensor x = rand({1, 3, height, width});
  x[0][0].fill_(0);
  x[0][0][4][6].fill_(1);
  const Tensor y = augment(x, {.blur = 1, .blur_sigma = 1.2}, 1, 0)[0];
  const double ratio = y[0][4][6].item() / y[0][4][7].item();
  const double sigma = std::sqrt(1 / (2 * std::log(ratio)));
  REQUIRE(sigma > 0.4);
  const auto radius = static_cast<int64_t>(std::ceil(3 * sigma));
  auto weight = [&](int64_t j) {
    return std::exp(-static_cast<double>(j * j) / (2 * sigma * sigma));
  };
  const Values pixels = values(x);
  double total = 0;
  for (int64_t j = -radius; j <= radius; ++j) total += weight(j);
  for (int64_t c = 1; c < 3; ++c)
    for (int64_t row = 0; row < height; ++row)
      for (int64_t column = 0; column < width; ++column) {
        double expected = 0;
        for (int64_t j = -radius; j <= radius; ++j)
          for (int64_t k = -radius; k <= radius; ++k) {
            const int64_t from_row = std::clamp<int64_t>(row + j, 0, height - 1),
                          from_column = std::clamp<int64_t>(column + k, 0, width - 1);
            const int64_t from = (c * height + from_row) * width + from_column;
            expected += weight(j) * weight(k) / (total * total) * pixels[static_cast<size_t>(from)];
          }
        CHECK(y[c][row][column].item() == Approx(expected).epsilon(1e-4));
      }
}

TEST_CASE("augment: limits of options and of sizes", "[images]") {
  const Tensor x = ones({1, 1, 2, 2});
  for (const AugmentOptions& o :
       {AugmentOptions{.crop_aspect = 1}, AugmentOptions{.blur = 1, .blur_sigma = 0.1}})
    CHECK(difference(augment(x, o, 1, 0), x) < 1e-6);
  CHECK_NOTHROW(augment(x, {.erase = 1, .erase_area = 0.02}, 1, 0));
  CHECK_THAT(error_of([&] { augment(x, {.blur_sigma = 0.09}, 1, 0); }), Contains("blur_sigma"));
  CHECK_THAT(error_of([&] { augment(x, {.erase_area = 0.019}, 1, 0); }), Contains("erase_area"));
  for (const Shape& shape : {Shape{1, 1, 1, 8192}, Shape{1, 1, 8192, 1}})
    CHECK(augment(zeros(shape), {}, 1, 0).shape() == shape);
  CHECK_THROWS_AS(augment(zeros({1, 1, 8193, 1}), {}, 1, 0), Error);
}

}  // namespace augment_ranges_test
