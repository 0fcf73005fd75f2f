// Augmentation: exact moves, PyTorch's resampling, and the distributions of the draws.

#include "gradus/models/data/images/augment.h"

#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/data/prefetch.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace augment_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains, Catch::StartsWith;
using models::augment;
using models::AugmentOptions;

namespace {

/// True if shape and all bits are equal.
bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::equal(
             a.data<float>(), a.data<float>() + a.numel(), b.data<float>(),
             [](float x, float y) { return std::bit_cast<int>(x) == std::bit_cast<int>(y); });
}

Tensor random_images(const Shape& shape, double low = 0, double high = 1) {
  manual_seed(11);
  return rand(shape) * (high - low) + low;
}

/// n copies of an image.
Tensor repeat(const Tensor& image, int64_t n) {
  return image.unsqueeze(0).expand({n, image.size(0), image.size(1), image.size(2)});
}

/// The image shifted right and down by whole pixels, with zeros at the edges.
Tensor moved(const Tensor& image, int64_t right, int64_t down) {
  const Tensor out = zeros(image.shape());
  const int64_t h = image.size(1), w = image.size(2);
  for (int64_t c = 0; c < image.size(0); ++c)
    for (int64_t y = 0; y < h; ++y)
      for (int64_t x = 0; x < w; ++x)
        if (y - down >= 0 && y - down < h && x - right >= 0 && x - right < w)
          out.data<float>()[(c * h + y) * w + x] = image[c][y - down][x - right].item<float>();
  return out;
}

Tensor flipped(const Tensor& x) {
  std::vector<float> values = x.to_vector<float>();
  const auto w = x.size(-1);
  for (auto row = values.begin(); row != values.end(); row += w) std::reverse(row, row + w);
  return from_data(values, x.shape());
}

const AugmentOptions every_change{.shift = 2,
                                  .crop_scale = 0.5,
                                  .crop_aspect = 1.3,
                                  .flip = 0.5,
                                  .rotate = 20,
                                  .zoom = 0.2,
                                  .shear = 10,
                                  .brightness = 0.4,
                                  .contrast = 0.4,
                                  .saturation = 0.4,
                                  .grey = 0.2,
                                  .blur = 0.5,
                                  .noise = 0.1,
                                  .erase = 0.5};

/// The source position of each pixel of n augmented images, relative to the centre. The images' two
/// channels are their own coordinates, which bilinear interpolation preserves.
struct Places {
  static constexpr int64_t size = 33;
  std::vector<float> values;
  Places(int64_t n, const AugmentOptions& options) {
    std::vector<float> ramp;
    for (int axis = 0; axis < 2; ++axis)
      for (int64_t y = 0; y < size; ++y)
        for (int64_t x = 0; x < size; ++x) ramp.push_back(static_cast<float>(axis ? y : x) - 16);
    values = augment(repeat(from_data(ramp, {2, size, size}), n), options, 3, 0).to_vector<float>();
  }
  double at(int64_t n, int64_t axis, int64_t right, int64_t down) const {
    return values[static_cast<size_t>(((n * 2 + axis) * size + 16 + down) * size + 16 + right)];
  }
  /// d(coordinate along axis) / d(right or down), near the centre.
  double slope(int64_t n, int64_t axis, bool down) const {
    return (at(n, axis, down ? 0 : 3, down ? 3 : 0) - at(n, axis, down ? 0 : -3, down ? -3 : 0)) /
           6;
  }
};

/// Checks mean and variance of a uniform distribution from low to high, within 6 standard
/// deviations.
void check_uniform(const std::vector<double>& x, double low, double high) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) {
    CHECK((v > low - 1e-4 && v < high + 1e-4));
    mean += v / n;
  }
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  const double width = high - low;
  CHECK(std::abs(mean - (low + high) / 2) < 6 * width / std::sqrt(12 * n));
  CHECK(std::abs(variance / (width * width / 12) - 1) < 6 / std::sqrt(n));
}

}  // namespace

TEST_CASE("augment: without options images are unchanged", "[images]") {
  Tensor x = random_images({3, 2, 5, 7});
  x.data<float>()[3] = std::nanf("");
  x.data<float>()[4] = 1e-42f;
  x.data<float>()[5] = -0.0f;
  x.data<float>()[6] = std::numeric_limits<float>::infinity();
  x.data<float>()[7] = -3;
  const Tensor y = augment(x, {}, 1, 2);
  CHECK(same(x, y));
  CHECK(y.data<float>() != x.data<float>());
  CHECK(same(augment(x.transpose(2, 3), {}, 1, 2), x.transpose(2, 3).contiguous()));
  CHECK(augment(zeros({0, 1, 3, 3}), every_change, 1, 2).shape() == Shape{0, 1, 3, 3});
  CHECK(augment(zeros({2, 1, 0, 3}), {}, 1, 2).shape() == Shape{2, 1, 0, 3});
  const Tensor leaf = ones({1, 1, 2, 2}).requires_grad_();
  CHECK(!augment(leaf, {.flip = 1}, 1, 2).requires_grad());
  for (const Shape& shape : {Shape{2, 1, 1, 1}, Shape{2, 3, 1, 9}, Shape{2, 4, 9, 1}})
    CHECK(augment(random_images(shape), every_change, 1, 2).shape() == shape);
}

TEST_CASE("augment: flips and shifts copy pixels exactly", "[images]") {
  Tensor x = random_images({200, 3, 6, 9});
  x.data<float>()[20] = std::nanf("");
  x.data<float>()[25] = std::numeric_limits<float>::infinity();
  CHECK(same(augment(x, {.flip = 1}, 1, 0), flipped(x)));
  const Tensor shifted = augment(x, {.shift = 2}, 1, 0),
               both = augment(x, {.shift = 2, .flip = 1}, 1, 0);
  std::map<std::pair<int, int>, int> counts;
  for (int64_t n = 0; n < 200; ++n)
    for (int right = -2; right <= 2; ++right)
      for (int down = -2; down <= 2; ++down) {
        if (!same(shifted[n].contiguous(), moved(x[n], right, down))) continue;
        ++counts[{right, down}];
        CHECK(same(both[n].contiguous(), moved(flipped(x[n]), right, down)));
      }
  int found = 0;
  for (const auto& [move, count] : counts) found += count;
  CHECK(found == 200);
  CHECK(counts.size() == 25);
}

TEST_CASE("warp: worked examples", "[images]") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}).reshape({1, 1, 3, 3});
  const auto through = [&](const core::NestedList& map) {
    return values(models::warp(x, tensor(map).reshape({1, 2, 3})));
  };
  CHECK(through({1, 0, 0, 0, 1, 0}) == values(x));
  CHECK(through({0, 1, 0, -1, 0, 0}) == Values{7, 4, 1, 8, 5, 2, 9, 6, 3});  // rotated by 90 deg
  CHECK(through({1, 0, 1, 0, 1, 0}) == Values{2, 3, 0, 5, 6, 0, 8, 9, 0});
  CHECK(through({1, 0, 0.5, 0, 1, 0}) == Values{1.5, 2.5, 1.5, 4.5, 5.5, 3, 7.5, 8.5, 4.5});
  CHECK(through({1, 0, 0, 0, 1, -0.25}) ==
        Values{0.75, 1.5, 2.25, 3.25, 4.25, 5.25, 6.25, 7.25, 8.25});
  CHECK(through({0.5, 0, 0, 0, 0.5, 0}) == Values{3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7});
  CHECK(through({1, 0, 1e6, 0, 1, -1e6}) == Values(9, 0));
  CHECK(through({1e6, 1e6, 0, 0, 1, 0}) == Values{0, 0, 2, 0, 5, 0, 8, 0, 0});
  CHECK_THROWS_AS(through({1, 0, std::nan(""), 0, 1, 0}), Error);
  CHECK_THROWS_AS(through({1, 0, 2e6, 0, 1, 0}), Error);
  CHECK_THROWS_WITH(models::warp(x, zeros({2, 2, 3})), Contains("and maps (N, 2, 3)"));
  CHECK_THROWS_AS(models::warp(zeros({3, 3}), zeros({3, 2, 3})), Error);
}

TEST_CASE("warp: PyTorch's affine_grid and grid_sample", "[images]") {
  const golden::File file("images");
  const Tensor x = file.get("images", float32), theta = file.get("theta");
  const auto h = static_cast<double>(x.size(2)), w = static_cast<double>(x.size(3));
  // In PyTorch's coordinates half the image has length 1 along each axis.
  const Tensor maps = theta * tensor({{1, w / h, w / 2}, {h / w, 1, h / 2}}, float64);
  CHECK(difference(models::warp(x, maps), file.get("warped", float32)) < 2e-6);
}

TEST_CASE("augment: draws depend on the id, not on the number of threads", "[images]") {
  const Tensor x = random_images({150, 3, 13, 11});
  const int before = num_threads();
  set_num_threads(1);
  const Tensor y = augment(x, every_change, 5, 6);
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    CHECK(same(augment(x, every_change, 5, 6), y));
  }
  set_num_threads(before);
  const Tensor ids = tensor({140, 7, 7, 0}, int64);
  const Tensor some = augment(x[ids], every_change, 5, 6, ids);
  CHECK(same(some, y[ids]));
  CHECK(!same(augment(x[ids], every_change, 5, 6), some));
  CHECK(!same(augment(x, every_change, 5, 7), y));
  CHECK(!same(augment(x, every_change, 6, 6), y));
  const Tensor far = augment(x.slice(0, 0, 1), every_change, 5, 6 + (int64_t{1} << 32));
  CHECK(!same(far, y.slice(0, 0, 1).contiguous()));
  models::Prefetch<Tensor> ahead(
      [&](int64_t step, int64_t) { return augment(x, every_change, 5, step); });
  for (int64_t step = 4; step < 8; ++step) {
    const Tensor got = ahead.at(step);
    CHECK(same(got, augment(x, every_change, 5, step)));
    if (step == 6) CHECK(same(got, y));
  }
}

TEST_CASE("augment: distributions of moves", "[images]") {
  constexpr int64_t n = 4000;
  std::vector<double> angles, zooms, leans, rights, downs;
  const Places turned(n, {.rotate = 30}), zoomed(n, {.zoom = 0.5}), leant(n, {.shear = 20}),
      shifted(n, {.shift = 3}), cropped(n, {.crop_scale = 0.4, .crop_aspect = 1.5});
  int same_area = 0;
  for (int64_t i = 0; i < n; ++i) {
    angles.push_back(std::atan2(turned.slope(i, 1, false), turned.slope(i, 0, false)) * 180 / M_PI);
    CHECK(turned.slope(i, 0, true) == Approx(-turned.slope(i, 1, false)).margin(1e-4));
    zooms.push_back(std::log(zoomed.slope(i, 1, true)));
    CHECK(zoomed.slope(i, 0, false) == Approx(zoomed.slope(i, 1, true)).epsilon(1e-4));
    leans.push_back(std::atan(leant.slope(i, 0, true)) * 180 / M_PI);
    CHECK(leant.slope(i, 1, true) == Approx(1));
    rights.push_back(-shifted.at(i, 0, 0, 0));
    downs.push_back(-shifted.at(i, 1, 0, 0));
    // A crop lies within the image and has the requested area and aspect ratio.
    const double u = cropped.slope(i, 0, false), v = cropped.slope(i, 1, true);
    CHECK((u < 1 + 1e-5 && v < 1 + 1e-5 && u * v > 0.4 - 1e-3 && u * v < 1 + 1e-5));
    CHECK((u / v < 1.51 && v / u < 1.51));
    for (int axis = 0; axis < 2; ++axis)
      CHECK(std::abs(cropped.at(i, axis, 0, 0)) + (axis ? v : u) * 16.5 < 16.5 + 1e-3);
    same_area += u * v < 0.7;
  }
  check_uniform(angles, -30, 30);
  check_uniform(zooms, -std::log(1.5), std::log(1.5));
  std::map<double, int> counts;
  for (const double right : rights) ++counts[right];
  CHECK(counts.size() == 7);
  for (const auto& [right, count] : counts) CHECK(std::abs(count - n / 7) < 130);
  double product = 0;
  for (size_t i = 0; i < rights.size(); ++i) product += rights[i] * downs[i] / n;
  CHECK(std::abs(product) < 0.4);  // the axes are independent
  check_uniform(leans, -20, 20);
  CHECK((same_area > 0.4 * n && same_area < 0.7 * n));
}

TEST_CASE("augment: crops, shifts and rectangles of images wider than high", "[images]") {
  constexpr int64_t n = 500, height = 9, width = 33;
  std::vector<float> ramp;  // each pixel's own coordinates, relative to the centre
  for (int axis = 0; axis < 2; ++axis)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) ramp.push_back(static_cast<float>(axis ? y - 4 : x - 16));
  const Tensor image = from_data(ramp, {2, height, width});
  auto changed = [&](const AugmentOptions& o) { return augment(repeat(image, n), o, 3, 0); };
  const Tensor crops = changed({.crop_scale = 0.3});
  std::array<double, 2> furthest{};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t axis = 0; axis < 2; ++axis) {
      auto at = [&](int64_t y, int64_t x) { return crops[i][axis][y][x].item(); };
      const double size = axis ? 4.5 : 16.5, centre = at(4, 16);
      const double slope = axis ? at(5, 16) - centre : at(4, 17) - centre;
      const double room = (1 - slope) * size;
      CHECK(std::abs(centre) < room + 1e-3);
      auto& most = furthest[static_cast<size_t>(axis)];
      if (room > 0.1) most = std::max(most, std::abs(centre) / room);
    }
  CHECK((furthest[0] > 0.95 && furthest[1] > 0.95));
  const Tensor erased = augment(ones({n, 1, height, width}), {.erase = 1}, 3, 0) == 0;
  const Tensor where = sum(erased.to(float32), {0, 1});
  CHECK(min(where).item() > 0);  // every pixel, the last row and column too
}

TEST_CASE("augment: distributions of flips, colours, rectangles and noise", "[images]") {
  constexpr int64_t n = 4000;
  const Tensor half = full({1, 4, 5}, 0.5);
  int flips = 0, blank = 0;
  const Tensor edge = repeat(tensor({0, 0, 1}).reshape({1, 1, 3}), n);
  for (const float left : augment(edge, {.flip = 0.3}, 1, 0).slice(3, 0, 1).to_vector<float>())
    flips += left == 1;
  CHECK(std::abs(flips - 1200) < 6 * 29);
  check_uniform(
      augment(repeat(half, n), {.brightness = 0.4}, 1, 0).mean({1, 2, 3}).to_vector<double>(), 0.3,
      0.7);
  const Tensor erased =
      augment(repeat(full({2, 20, 20}, 0.5), n), {.erase = 0.25, .erase_area = 0.2}, 1, 0);
  for (int64_t i = 0; i < n; ++i) {
    const auto pixels = erased[i].flatten().to_vector<float>();
    const auto zeros = std::count(pixels.begin(), pixels.end(), 0.0f);
    CHECK(zeros + std::count(pixels.begin(), pixels.end(), 0.5f) == 800);
    CHECK((zeros == 0 || (zeros >= 2 * 3 && zeros <= 2 * 110)));
    blank += zeros > 0;
  }
  CHECK(std::abs(blank - 1000) < 6 * 27);
  const Tensor noisy = augment(full({4, 1, 100, 101}, 0.5), {.noise = 0.1}, 1, 0);
  CHECK(noisy.mean().item() == Approx(0.5).margin(0.003));
  CHECK(noisy.var().item() == Approx(0.01).epsilon(0.05));
  CHECK(((noisy - 0.5).pow(4)).mean().item() ==
        Approx(3e-4).epsilon(0.1));             // fourth moment of a normal distribution
  CHECK_FALSE(any(noisy == 0.5).item<bool>());  // every pixel has changed
  CHECK(noisy[0][0].flatten().to_vector<float>() != noisy[1][0].flatten().to_vector<float>());
}

TEST_CASE("augment: shifts, flips, shears, rotates, scales and crops, in this order", "[images]") {
  // Options draw independently: applied one after another they give the combined result.
  const int64_t n = 300;
  const Places whole(n, {.shift = 2,
                         .crop_scale = 0.7,
                         .crop_aspect = 1.2,
                         .flip = 0.5,
                         .rotate = 20,
                         .zoom = 0.2,
                         .shear = 15}),
      shift(n, {.shift = 2}), crop(n, {.crop_scale = 0.7, .crop_aspect = 1.2}),
      flip(n, {.flip = 0.5}), turn(n, {.rotate = 20}), zoom(n, {.zoom = 0.2}),
      lean(n, {.shear = 15});
  for (int64_t i = 0; i < n; ++i)
    for (const auto& [x, y] : {std::pair(0, 0), std::pair(4, 1), std::pair(-3, 4)}) {
      std::array<double, 2> p{x + shift.at(i, 0, 0, 0), y + shift.at(i, 1, 0, 0)};
      for (const Places* step : {&flip, &lean, &turn, &zoom, &crop}) {
        std::array<double, 2> q{};
        for (int axis = 0; axis < 2; ++axis)
          q[static_cast<size_t>(axis)] = step->at(i, axis, 0, 0) +
                                         step->slope(i, axis, false) * p[0] +
                                         step->slope(i, axis, true) * p[1];
        p = q;
      }
      CHECK(whole.at(i, 0, x, y) == Approx(p[0]).margin(1e-4));
      CHECK(whole.at(i, 1, x, y) == Approx(p[1]).margin(1e-4));
    }
}

TEST_CASE("augment: colours by their formulas", "[images]") {
  // No value is clamped, so the result of one option shows its factor.
  const Tensor x = random_images({20, 3, 6, 5}, 0.4, 0.6);
  const auto get = [&](const AugmentOptions& o) { return augment(x, o, 9, 1); };
  const Tensor bright = get({.brightness = 0.3}), contrast = get({.contrast = 0.3}),
               saturated = get({.saturation = 0.3});
  const Tensor together = get({.brightness = 0.3, .contrast = 0.3, .saturation = 0.3});
  const auto grey_of = [](const Tensor& image) {
    return (0.299 * image.select(0, 0) + 0.587 * image.select(0, 1) + 0.114 * image.select(0, 2))
        .expand(image.shape());
  };
  const auto slope = [](const Tensor& y, const Tensor& x) {
    return ((y * x).sum() / (x * x).sum()).item();
  };
  for (int64_t i = 0; i < 20; ++i) {
    const auto b = slope(bright[i], x[i]);
    CHECK(difference(bright[i], b * x[i]) < 1e-6);
    const Tensor grey = grey_of(x[i]), mean = grey.mean();
    const auto c = slope(contrast[i] - mean, x[i] - mean);
    CHECK(difference(contrast[i], c * x[i] + (1 - c) * mean) < 1e-6);
    const auto s = slope(saturated[i] - grey, x[i] - grey);
    CHECK(difference(saturated[i], s * x[i] + (1 - s) * grey) < 1e-6);
    const Tensor y = b * x[i], z = c * y + (1 - c) * grey_of(y).mean();
    CHECK(difference(together[i], s * z + (1 - s) * grey_of(z)) < 1e-6);
    CHECK((b > 0.7 && b < 1.3 && c > 0.7 && c < 1.3 && s > 0.7 && s < 1.3));
  }
  const Tensor grey = get({.grey = 1});
  CHECK(difference(grey.select(1, 0), grey.select(1, 2)) < 1e-6);
  CHECK(difference(grey[0], grey_of(x[0])) < 1e-6);
  // Images of one or two channels have contrast but no colour.
  for (const int64_t channels : {1, 2}) {
    const Tensor y = x.slice(1, 0, channels).contiguous();
    CHECK(same(augment(y, {.saturation = 1, .grey = 1}, 9, 1), y));
    const Tensor sharp = augment(y, {.contrast = 0.3}, 9, 1);
    CHECK(sharp[0].mean().item() == Approx(y[0].mean().item()));
    CHECK(!same(sharp, y));
  }
  // Values are clamped; NaN stays at its position.
  const Tensor clamped = augment(random_images({50, 1, 4, 4}), {.brightness = 1}, 1, 1);
  CHECK(clamped.max().item() == 1);
  CHECK(clamped.min().item() >= 0);
}

TEST_CASE("augment: a blur is a Gaussian", "[images]") {
  const Tensor dot = zeros({1, 41, 41});
  dot.data<float>()[20 * 41 + 20] = 1;
  const Tensor y = augment(repeat(dot, 300), {.blur = 1, .blur_sigma = 4}, 2, 0);
  std::vector<double> sigmas;
  for (int64_t i = 0; i < 300; ++i) {
    const Tensor image = y[i][0];
    CHECK(image.sum().item() == Approx(1));
    const std::vector<double> row = image[20].to_vector<double>();
    const double sigma = std::sqrt(1 / (2 * std::log(row[20] / row[21])));
    if (row[21] < 1e-6) continue;
    sigmas.push_back(sigma);
    for (int64_t j = 0; j <= static_cast<int64_t>(3 * sigma); ++j) {
      const double expected = row[20] * std::exp(-static_cast<double>(j * j) / (2 * sigma * sigma));
      CHECK(row[static_cast<size_t>(20 + j)] == Approx(expected).epsilon(1e-3));
      CHECK(row[static_cast<size_t>(20 - j)] == Approx(expected).epsilon(1e-3));
      CHECK(image[20 + j][20].item() == Approx(expected).epsilon(1e-3));
    }
  }
  check_uniform(sigmas, *std::min_element(sigmas.begin(), sigmas.end()), 4);
  // Edges are replicated: a constant image stays constant, even if smaller than the kernel.
  for (const Shape& shape : {Shape{5, 3, 8, 8}, Shape{5, 1, 1, 3}, Shape{5, 1, 2, 1}})
    CHECK(difference(augment(full(shape, 0.25), {.blur = 1, .blur_sigma = 30}, 1, 1),
                     full(shape, 0.25)) < 1e-6);
}

TEST_CASE("augment: options out of range are refused", "[images]") {
  const Tensor x = zeros({2, 3, 4, 4});
  const auto refused = [&](const AugmentOptions& o) {
    return error_of([&] { augment(x, o, 1, 1); });
  };
  CHECK(refused({.shift = -1}) == "augment: shift: expected a whole number from 0 to 8192, got -1");
  CHECK(refused({.crop_scale = 1.5}) ==
        "augment: crop_scale: expected a number from 0 to 1, got 1.5");
  CHECK(refused({.crop_aspect = 0.5}) == "augment: expected crop_aspect 0 or in [1, 100], got 0.5");
  for (const double valid : {1.0, 1.3}) CHECK(refused({.crop_aspect = valid}) == "");
  CHECK(refused({.flip = std::nan("")}) == "augment: flip: expected a number from 0 to 1, got nan");
  constexpr double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {-0.1, infinite, std::nan("")})
    for (const AugmentOptions& o :
         {AugmentOptions{.crop_scale = bad}, AugmentOptions{.crop_aspect = bad},
          AugmentOptions{.flip = bad}, AugmentOptions{.rotate = bad}, AugmentOptions{.zoom = bad},
          AugmentOptions{.shear = bad}, AugmentOptions{.brightness = bad},
          AugmentOptions{.contrast = bad}, AugmentOptions{.saturation = bad},
          AugmentOptions{.grey = bad}, AugmentOptions{.blur = bad},
          AugmentOptions{.blur_sigma = bad}, AugmentOptions{.noise = bad},
          AugmentOptions{.erase = bad}, AugmentOptions{.erase_area = bad}})
      CHECK_THAT(refused(o), StartsWith("augment: ") && Contains("expected "));
  CHECK_THROWS_WITH(augment(zeros({3, 4, 4}), {}, 1, 1),
                    Contains("images (N, C, H, W) of float32"));
  CHECK_THROWS_AS(augment(zeros({1, 3, 4, 4}, float64), {}, 1, 1), Error);
  CHECK_THROWS_AS(augment(x, {}, 1, -1), Error);
  CHECK_THROWS_WITH(augment(x, {}, 1, 1, arange(3)), Contains("an int64 id for each image"));
  CHECK_THROWS_AS(augment(x, {}, 1, 1, zeros({2})), Error);
  CHECK_THROWS_WITH(augment(zeros({1, 1, 1, 8193}), {}, 1, 1), Contains("at most 8192 pixels"));
}

}  // namespace augment_test
