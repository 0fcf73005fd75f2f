#include "gradus/models/data/images/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "gradus/core/internal.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/models/data/draws.h"

namespace gradus::models {

namespace {

/// ((a, b, s), (c, d, t)) as in warp.
using Map = std::array<double, 6>;
constexpr Map identity{1, 0, 0, 0, 1, 0};

struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

/// The random change of one image.
struct Change {
  Map map = identity;
  float brightness = 1, contrast = 1, saturation = 1;
  double blur = 0;  // sigma in pixels
  Box erased;
  RandomKey noise;
};

struct Size {
  int64_t channels, height, width;
  int64_t plane() const { return height * width; }
};

// ---- draws ----

/// Always draws the same sequence of numbers, so that one option does not affect the others' draws.
Change draw_change(const AugmentOptions& o, const Size& size, RandomKey key) {
  internal::Draws draws(key);
  const auto chance = [&](double probability) { return draws.uniform() < probability; };
  const auto around = [&](double most) { return most * (2 * draws.uniform() - 1); };
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  Change change;

  const auto right = static_cast<double>(draws.below(2 * o.shift + 1) - o.shift),
             down = static_cast<double>(draws.below(2 * o.shift + 1) - o.shift);
  const double least = o.crop_scale > 0 ? o.crop_scale : 1;
  const double area = least + (1 - least) * draws.uniform();
  const double ratio = std::exp(around(std::log(std::max(o.crop_aspect, 1.0))));
  const double crop_w = std::clamp(std::sqrt(area * ratio), area, 1.0), crop_h = area / crop_w;
  const double crop_x = around((1 - crop_w) * width / 2),
               crop_y = around((1 - crop_h) * height / 2);
  const double sign = chance(o.flip) ? -1 : 1;
  const double degree = std::numbers::pi / 180, angle = around(o.rotate * degree);
  const double scale = std::exp(around(std::log1p(o.zoom)));
  const double lean = std::tan(around(o.shear * degree));
  // The map takes an output pixel to the input: it undoes the shift, then flips, shears, rotates,
  // scales, and moves the pixel into the crop.
  const double u = crop_w / scale, v = crop_h / scale, cos = std::cos(angle), sin = std::sin(angle);
  const double a = sign * cos * u, b = (lean * cos - sin) * u, c = sign * sin * v,
               d = (lean * sin + cos) * v;
  change.map = {a, b, crop_x - a * right - b * down, c, d, crop_y - c * right - d * down};

  change.brightness = static_cast<float>(1 + around(o.brightness));
  change.contrast = static_cast<float>(1 + around(o.contrast));
  change.saturation = static_cast<float>(1 + around(o.saturation));
  if (chance(o.grey)) change.saturation = 0;
  const bool blurred = chance(o.blur);
  const double sigma = 0.1 + (o.blur_sigma - 0.1) * draws.uniform();
  if (blurred) change.blur = sigma;

  const bool erased = chance(o.erase);
  const double share = (0.02 + (o.erase_area - 0.02) * draws.uniform()) * height * width;
  const double aspect = std::exp(around(std::log(3.3)));
  const auto side = [](double length, int64_t most) {
    return std::clamp<int64_t>(std::llround(length), 1, most);
  };
  const int64_t h = side(std::sqrt(share * aspect), size.height),
                w = side(std::sqrt(share / aspect), size.width);
  const int64_t top = draws.below(size.height - h + 1), left = draws.below(size.width - w + 1);
  if (erased) change.erased = {top, left, h, w};
  change.noise = {key.seed, key.counter + (uint64_t{1} << 32)};
  return change;
}

// ---- changes ----

/// A thread's buffers, reused for each image.
struct Scratch {
  std::vector<float> framed, plane, line;
  explicit Scratch(const Size& s)
      : framed(static_cast<size_t>((s.height + 3) * (s.width + 3))),
        plane(static_cast<size_t>(s.plane())) {}
};

/// Resamples one plane from a copy padded with zeros: one pixel above and on the left, two below
/// and on the right. Coordinates are clamped to that copy, so no pixel needs a bounds check.
void warp_plane(const float* from, const Size& s, const Map& m, std::vector<float>& framed,
                float* to) {
  const int64_t stride = s.width + 3;
  for (int64_t y = 0; y < s.height; ++y)
    std::copy_n(from + y * s.width, s.width, framed.data() + (y + 1) * stride + 1);
  const double cx = static_cast<double>(s.width - 1) / 2,
               cy = static_cast<double>(s.height - 1) / 2;
  const auto right = static_cast<float>(s.width + 1), bottom = static_cast<float>(s.height + 1);
  const float* source = framed.data();
  for (int64_t y = 0; y < s.height; ++y) {
    const double v = static_cast<double>(y) - cy;
    // The source of the row's first pixel, in coordinates of the padded copy, which starts at -1.
    const auto x0 = static_cast<float>(m[1] * v + m[2] + cx + 1 - m[0] * cx),
               y0 = static_cast<float>(m[4] * v + m[5] + cy + 1 - m[3] * cx),
               dx = static_cast<float>(m[0]), dy = static_cast<float>(m[3]);
    float* row = to + y * s.width;
    simd_for(s.width, [=](int64_t i) {
      const auto k = static_cast<float>(i);
      const float px = std::min(std::max(x0 + dx * k, 0.0f), right);
      const float py = std::min(std::max(y0 + dy * k, 0.0f), bottom);
      const auto left = static_cast<int32_t>(px), top = static_cast<int32_t>(py);
      const float fx = px - static_cast<float>(left), fy = py - static_cast<float>(top);
      const float* at = source + (top * static_cast<int32_t>(stride) + left);
      // Where a weight is 0, NaN and infinities of the neighbour must not spread.
      const float upper = fx == 0 ? at[0] : at[0] + fx * (at[1] - at[0]);
      const float lower = fx == 0 ? at[stride] : at[stride] + fx * (at[stride + 1] - at[stride]);
      row[i] = fy == 0 ? upper : upper + fy * (lower - upper);
    });
  }
}

void warp_image(const float* from, const Size& s, const Map& map, Scratch& scratch, float* to) {
  if (map == identity) {
    std::copy_n(from, s.channels * s.plane(), to);
    return;
  }
  for (int64_t c = 0; c < s.channels; ++c)
    warp_plane(from + c * s.plane(), s, map, scratch.framed, to + c * s.plane());
}

/// Changes brightness by b, then contrast by c, then saturation by s. With g = grey(x), a weighted
/// mean of the channels:
///   y = b x,  z = c y + (1 - c) mean grey(y),  s z + (1 - s) grey(z)
///     = s c b x + (1 - s) c b g + (1 - c) b mean g
void colour(float* x, const Size& size, const Change& change) {
  const int64_t n = size.plane();
  const bool is_rgb = size.channels == 3;
  float *r = x, *g = x + (is_rgb ? n : 0), *b = x + (is_rgb ? 2 * n : 0);
  const auto grey = [=](int64_t i) { return 0.299f * r[i] + 0.587f * g[i] + 0.114f * b[i]; };
  const int64_t values = is_rgb ? n : size.channels * n;
  double mean = 0;
  if (change.contrast != 1)
    mean = (is_rgb ? blocked_sum<float>(n, grey)
                   : blocked_sum<float>(values, [=](int64_t i) { return x[i]; })) /
           static_cast<double>(values);
  const float all = change.contrast * change.brightness, own = change.saturation * all,
              others = all - own,
              base = (1 - change.contrast) * change.brightness * static_cast<float>(mean);
  if (!is_rgb) {
    simd_for(values, [=](int64_t i) { x[i] = all * x[i] + base; });
    return;
  }
  simd_for(n, [=](int64_t i) {
    const float rest = others * grey(i) + base;
    r[i] = own * r[i] + rest;
    g[i] = own * g[i] + rest;
    b[i] = own * b[i] + rest;
  });
}

/// Convolves a plane with a Gaussian along both axes, with edge pixels replicated.
void blur(float* x, const Size& s, double sigma, Scratch& scratch) {
  const auto radius = static_cast<int64_t>(std::ceil(3 * sigma));
  std::vector<float> weights;
  double sum = 0;
  for (int64_t j = -radius; j <= radius; ++j)
    sum += std::exp(-static_cast<double>(j * j) / (2 * sigma * sigma));
  for (int64_t j = -radius; j <= radius; ++j)
    weights.push_back(
        static_cast<float>(std::exp(-static_cast<double>(j * j) / (2 * sigma * sigma)) / sum));
  scratch.line.resize(static_cast<size_t>(s.width + 2 * radius));
  float *line = scratch.line.data(), *across = scratch.plane.data();
  std::fill_n(across, s.plane(), 0.0f);
  for (int64_t y = 0; y < s.height; ++y) {
    const float* row = x + y * s.width;
    std::fill_n(line, radius, row[0]);
    std::copy_n(row, s.width, line + radius);
    std::fill_n(line + radius + s.width, radius, row[s.width - 1]);
    float* to = across + y * s.width;
    for (int64_t j = 0; j <= 2 * radius; ++j) {
      const float weight = weights[static_cast<size_t>(j)], *from = line + j;
      simd_for(s.width, [=](int64_t i) { to[i] += weight * from[i]; });
    }
  }
  std::fill_n(x, s.plane(), 0.0f);
  for (int64_t y = 0; y < s.height; ++y)
    for (int64_t j = -radius; j <= radius; ++j) {
      const float weight = weights[static_cast<size_t>(j + radius)],
                  *from = across + std::clamp<int64_t>(y + j, 0, s.height - 1) * s.width;
      float* to = x + y * s.width;
      simd_for(s.width, [=](int64_t i) { to[i] += weight * from[i]; });
    }
}

/// x += deviation * normal noise (Box & Muller 1958).
void add_noise(float* x, int64_t n, float deviation, RandomKey key) {
  constexpr int64_t blocks = 64;
  std::array<float, 4 * blocks> normal;
  for (int64_t begin = 0; begin < n; begin += 4 * blocks) {
    float* z = normal.data();
    simd_for(blocks, [=](int64_t i) {
      const auto words = philox(key, static_cast<uint64_t>(begin / 4 + i));
      for (size_t k = 0; k < 4; k += 2) {
        const float u = (static_cast<float>(words[k]) + 1) * 0x1p-32f;
        const float radius = deviation * std::sqrt(-2 * kernel::log(u));
        const float angle = 2 * std::numbers::pi_v<float> * uniform_float(words[k + 1]);
        z[static_cast<int64_t>(k) * blocks + i] = radius * kernel::cos(angle);
        z[static_cast<int64_t>(k + 1) * blocks + i] = radius * kernel::sin(angle);
      }
    });
    float* to = x + begin;
    simd_for(std::min(4 * blocks, n - begin), [=](int64_t i) { to[i] += z[i]; });
  }
}

/// Calls change(n, size, scratch, from, to) for each image, in parallel.
template <class F>
Tensor each_image(const char* op, const Tensor& images, F&& change) {
  check(images.rank() == 4 && images.dtype() == float32, op,
        ": expected images (N, C, H, W) of float32, got ", images.dtype(), " ", images.shape());
  const Size size{images.size(1), images.size(2), images.size(3)};
  check(size.height <= 8192 && size.width <= 8192, op,
        ": expected at most 8192 pixels per side, got ", size.height, " x ", size.width);
  const Tensor x = images.detach().contiguous(), y = empty(x.shape());
  if (x.numel() == 0) return y;
  const float* from = x.data<float>();
  float* to = y.data<float>();
  const int64_t values = size.channels * size.plane();
  parallel_for(images.size(0), 1 + 4096 / values, [&](int64_t begin, int64_t end) {
    Scratch scratch(size);
    for (int64_t n = begin; n < end; ++n)
      change(n, size, scratch, from + n * values, to + n * values);
  });
  return y;
}

}  // namespace

Fields AugmentOptions::fields(AugmentOptions& o) {
  Fields fields;
  fields.add("shift", o.shift, 0, 8192, "maximum shift in pixels");
  fields.add("crop_scale", o.crop_scale, 0, 1,
             "minimum area of a random crop, as a fraction; 0: no crop");
  fields.add("crop_aspect", o.crop_aspect, 0, 100, "maximum aspect ratio of the crop; 0: 1");
  fields.add("flip", o.flip, 0, 1, "probability of a horizontal flip");
  fields.add("rotate", o.rotate, 0, 180, "maximum rotation in degrees");
  fields.add("zoom", o.zoom, 0, 100, "maximum zoom; 0.1: scaled by 1 / 1.1 to 1.1");
  fields.add("shear", o.shear, 0, 80, "maximum shear in degrees");
  fields.add("brightness", o.brightness, 0, 1,
             "maximum change of brightness; 0.1: times 0.9 to 1.1");
  fields.add("contrast", o.contrast, 0, 1, "maximum change of contrast, around the mean");
  fields.add("saturation", o.saturation, 0, 1, "maximum change of saturation, around grey");
  fields.add("grey", o.grey, 0, 1, "probability of conversion to grey");
  fields.add("blur", o.blur, 0, 1, "probability of a Gaussian blur");
  fields.add("blur_sigma", o.blur_sigma, 0.1, 32,
             "maximum standard deviation of the blur in pixels");
  fields.add("noise", o.noise, 0, 100, "standard deviation of added noise; white is 1");
  fields.add("erase", o.erase, 0, 1, "probability of erasing a rectangle");
  fields.add("erase_area", o.erase_area, 0.02, 1, "maximum fraction of the area to erase");
  return fields;
}

void AugmentOptions::check() const {
  AugmentOptions o = *this;
  fields(o).check("augment");
  core::check(crop_aspect == 0 || crop_aspect >= 1,
              "augment: expected crop_aspect 0 or in [1, 100], got ", crop_aspect);
}

Tensor augment(const Tensor& images, const AugmentOptions& options, uint64_t seed, int64_t step,
               const Tensor& ids) {
  options.check();
  check(step >= 0, "augment: expected a step of at least 0, got ", step);
  Tensor id = ids;
  if (ids.defined()) {
    check(images.rank() >= 1 && ids.dtype() == int64 && ids.shape() == Shape{images.size(0)},
          "augment: expected an int64 id for each image, got ", ids.dtype(), " ", ids.shape());
    id = ids.contiguous();
  }
  const int64_t* of = ids.defined() ? id.data<int64_t>() : nullptr;
  const AugmentOptions& o = options;
  const bool colours = o.brightness > 0 || o.contrast > 0 || o.saturation > 0 || o.grey > 0;
  return each_image(
      "augment", images,
      [&, of, colours](int64_t n, const Size& size, Scratch& scratch, const float* from,
                       float* to) {
        const auto low = static_cast<uint64_t>(step), high = static_cast<uint64_t>(of ? of[n] : n);
        const auto word = [](uint64_t bits) { return static_cast<uint32_t>(bits); };
        const auto key = philox4x32({word(low), word(low >> 32), word(high), word(high >> 32)},
                                    {word(seed), word(seed >> 32)});
        const Change change = draw_change(
            o, size, {uint64_t{key[0]} << 32 | key[1], uint64_t{key[2]} << 32 | key[3]});
        const int64_t values = size.channels * size.plane();
        warp_image(from, size, change.map, scratch, to);
        if (colours) colour(to, size, change);
        for (int64_t c = 0; c < size.channels && change.blur > 0; ++c)
          blur(to + c * size.plane(), size, change.blur, scratch);
        if (o.noise > 0) add_noise(to, values, static_cast<float>(o.noise), change.noise);
        if (colours || o.noise > 0)
          simd_for(values, [=](int64_t i) { to[i] = std::min(std::max(to[i], 0.0f), 1.0f); });
        const Box& box = change.erased;
        for (int64_t y = 0; y < size.channels * box.height; ++y)
          std::fill_n(to + y / box.height * size.plane() + (box.top + y % box.height) * size.width +
                          box.left,
                      box.width, 0.0f);
      });
}

Tensor warp(const Tensor& images, const Tensor& maps) {
  check(images.rank() == 4 && maps.shape() == Shape{images.size(0), 2, 3},
        "warp: expected images (N, C, H, W) and maps (N, 2, 3), got ", images.shape(), " and ",
        maps.shape());
  const std::vector<double> values = maps.to_vector<double>();
  for (const double v : values)
    check(std::fabs(v) <= 1e6, "warp: expected maps with values from -1e6 to 1e6, got ", v);
  return each_image(
      "warp", images,
      [&](int64_t n, const Size& size, Scratch& scratch, const float* from, float* to) {
        Map map;
        std::copy_n(values.begin() + 6 * n, 6, map.begin());
        warp_image(from, size, map, scratch, to);
      });
}

}  // namespace gradus::models
