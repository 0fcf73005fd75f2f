// Rows of pooling, interpolation and batch norm.

#include <cmath>

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// x padded with `value`, sliced at each window position: one tensor per position, in row-major
/// order.
Tensors places(const Tensor& x, Size2d kernel, Size2d stride, Size2d padding, Size2d dilation,
               double value) {
  const Tensor padded =
      pad(x, {padding.width, padding.width, padding.height, padding.height}, value);
  Tensors out;
  auto cut = [](const Tensor& t, int axis, int64_t k, int64_t kernel, int64_t s, int64_t d) {
    return t.slice(axis, k * d, t.size(axis) - (kernel - 1 - k) * d, s);
  };
  for (int64_t u = 0; u < kernel.height; ++u)
    for (int64_t v = 0; v < kernel.width; ++v)
      out.push_back(cut(cut(padded, -2, u, kernel.height, stride.height, dilation.height), -1, v,
                        kernel.width, stride.width, dilation.width));
  return out;
}

std::vector<OpRow> max_pool_rows() {
  struct Case {
    const char* name;
    Size2d kernel;
    MaxPool2dOptions o;
  };
  std::vector<OpRow> rows;
  for (const Case& c :
       {Case{"2 by 2", 2, {}},
        Case{"overlapping, padded", {3, 2}, {.stride = {2, 1}, .padding = 1}},
        Case{"dilated", {2, 3}, {.stride = 1, .padding = {0, 1}, .dilation = {3, 2}}},
        Case{"2 by 2, apart", 2, {.stride = {3, 2}, .padding = {1, 0}}},
        Case{"2 by 2, padded", 2, {.padding = 1}}, Case{"2 by 2, dilated", 2, {.dilation = 2}},
        Case{"a tap just beyond five columns", 3, {.padding = 1, .dilation = {2, 3}}}})
    rows.push_back(
        {.name = "max_pool2d",
         .variant = c.name,
         .f = of_one([c](const Tensor& x) { return max_pool2d(x, c.kernel, c.o); }),
         .samples = {{distinct({2, 2, 5, 6})},
                     {distinct({4, 5})},
                     {distinct({1, 7, 7})},
                     {distinct({0, 2, 4, 5})}},
         .large = {{distinct({5, 7, 31, 43})}, {distinct({3, 200, 129})}},
         .composed = of_one([c](const Tensor& x) {
           Size2d s = c.o.stride;
           if (s.height == 0) s = c.kernel;
           return max(stack(places(x, c.kernel, s, c.o.padding, c.o.dilation, -inf)), 0).values;
         })});
  rows[0].bad = {{[] { max_pool2d(f32({3}), 2); }, "does not fit x (..., H, W) (3,)"},
                 {[] {
                    max_pool2d(i64({3, 3}), 2);
                  },
                  "max_pool2d: expected float32 or float64, got int64"},
                 {[] {
                    max_pool2d(f32({2, 1, 3}), 2);
                  },
                  "max_pool2d: a window of 2 with stride 2, padding 0 (at most half the window) "
                  "and dilation 1 "
                  "does not fit x (..., H, W) (2, 1, 3)"},
                 {[] {
                    max_pool2d(f32({3, 3}), 0);
                  },
                  "max_pool2d: a window of 0"},
                 {[] {
                    max_pool2d(f32({3, 3}), {2, -1});
                  },
                  "max_pool2d: a window of -1"},
                 {[] {
                    max_pool2d(f32({3, 3}), 2, {.stride = -1});
                  },
                  "stride -1"},
                 {[] {
                    max_pool2d(f32({3, 3}), 2, {.padding = 2});
                  },
                  "padding 2"},
                 {[] {
                    max_pool2d(f32({3, 3}), 2, {.padding = -1});
                  },
                  "padding -1"},
                 {[] {
                    max_pool2d(f32({3, 3}), 2, {.padding = INT64_MAX});
                  },
                  "padding 9223372036854775807"},
                 {[] {
                    max_pool2d(f32({3, 3}), 2, {.dilation = 0});
                  },
                  "dilation 0"},
                 {[] {
                    max_pool2d(f32({3, 3}), 2, {.dilation = 3});
                  },
                  "dilation 3"},
                 {[] {
                    max_pool2d(f32({2, 2}), 2, {.padding = 1, .dilation = 3});
                  },
                  "dilation 3"},
                 {[] {
                    max_pool2d(f32({3, 3}), INT64_MAX, {.padding = INT64_MAX / 2});
                  },
                  "max_pool2d: a window of 9223372036854775807"},
                 {[] {
                    max_pool2d(f32({0, 3}), 1);
                  },
                  "max_pool2d: a window of 1"}};
  return rows;
}

/// The (m, n) matrix whose entry (i, k) is weight(n, m, i, k).
using Weight = double (*)(int64_t n, int64_t m, int64_t i, int64_t k);
Tensor matrix(Weight weight, int64_t n, int64_t m, Dtype dtype) {
  std::vector<double> a;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t k = 0; k < n; ++k) a.push_back(weight(n, m, i, k));
  return from_data(a, {m, n}).to(dtype);
}
TensorFunction by_matrices(Weight weight, Size2d size) {
  return of_one([=](const Tensor& x) {
    const Tensor a = matrix(weight, x.size(-2), size.height, x.dtype());
    const Tensor b = matrix(weight, x.size(-1), size.width, x.dtype());
    return matmul(matmul(a, x), b.mT());
  });
}

double hat(double x) { return std::max(0.0, 1 - std::abs(x)); }

double bilinear(int64_t n, int64_t m, int64_t i, int64_t k) {
  const double centre = (double(i) + 0.5) * double(n) / double(m) - 0.5;
  return hat(std::clamp(centre, 0.0, double(n - 1)) - double(k));
}
double bilinear_by_corners(int64_t n, int64_t m, int64_t i, int64_t k) {
  return hat(m == 1 ? double(k) : double(i) * double(n - 1) / double(m - 1) - double(k));
}
double nearest(int64_t n, int64_t m, int64_t i, int64_t k) { return i * n / m == k; }
double adaptive(int64_t n, int64_t m, int64_t i, int64_t k) {
  const int64_t begin = i * n / m, end = ((i + 1) * n + m - 1) / m;
  return k >= begin && k < end ? 1 / double(end - begin) : 0;
}

std::vector<OpRow> resampling_rows() {
  const std::vector<Sample> samples{
      {normal({2, 2, 3, 5})}, {normal({4, 3})}, {normal({2, 1, 1})}, {normal({0, 2, 2, 3})}};
  const std::vector<Sample> large{{normal({5, 7, 31, 43})}, {normal({2, 1, 300, 517})}};
  std::vector<OpRow> rows;
  auto add = [&](const std::string& variant, auto f, const TensorFunction& composed) {
    rows.push_back({.name = "resample",
                    .variant = variant,
                    .f = of_one(f),
                    .samples = samples,
                    .large = large,
                    .composed = composed});
  };
  for (const Size2d size : {Size2d(2, 3), Size2d(7, 4), Size2d(1)}) {
    const std::string to =
        " to " + std::to_string(size.height) + " by " + std::to_string(size.width);
    add(
        "bilinear" + to,
        [=](const Tensor& x) { return interpolate(x, size, {.mode = Interpolation::bilinear}); },
        by_matrices(bilinear, size));
    add(
        "bilinear by corners" + to,
        [=](const Tensor& x) {
          return interpolate(x, size, {.mode = Interpolation::bilinear, .align_corners = true});
        },
        by_matrices(bilinear_by_corners, size));
    add(
        "nearest" + to, [=](const Tensor& x) { return interpolate(x, size); },
        by_matrices(nearest, size));
    add(
        "adaptive" + to, [=](const Tensor& x) { return adaptive_avg_pool2d(x, size); },
        by_matrices(adaptive, size));
  }
  for (const bool counted : {false, true})
    add(
        counted ? "windows" : "windows, padding not counted",
        [=](const Tensor& x) {
          return avg_pool2d(x, {3, 2},
                            {.stride = {2, 1}, .padding = 1, .count_include_pad = counted});
        },
        of_one([=](const Tensor& x) {
          auto total = [](const Tensor& t) {
            return sum(stack(places(t, {3, 2}, {2, 1}, 1, 1, 0)), 0);
          };
          return total(x) / (counted ? full({}, 6, x.dtype()) : total(ones_like(x)));
        }));
  rows[0].bad = {{[] { interpolate(f32({3}), 2); }, "interpolate: expected x (..., H, W)"},
                 {[] {
                    interpolate(f32({2, 0}), 2);
                  },
                  "interpolate: expected x (..., H, W)"},
                 {[] {
                    interpolate(i64({2, 2}), 2);
                  },
                  "interpolate: expected float32 or float64, got int64"},
                 {[] {
                    interpolate(f32({2, 2}), {1, 0});
                  },
                  "got x (2, 2) and a result of (1, 0)"},
                 {[] {
                    interpolate(f32({2, 2}), INT64_MAX);
                  },
                  "a result of 1 to 16777216 rows and columns"},
                 {[] {
                    interpolate(f32({2, 2}), 3, {.align_corners = true});
                  },
                  "interpolate: align_corners needs bilinear, got nearest"},
                 {[] {
                    adaptive_avg_pool2d(f32({2, 2}), -1);
                  },
                  "adaptive_avg_pool2d: expected x"},
                 {[] {
                    avg_pool2d(f32({2, 2}), 3);
                  },
                  "avg_pool2d: a window of 3"},
                 {[] {
                    avg_pool2d(f32({2, 2}), 2, {.padding = 2});
                  },
                  "avg_pool2d: a window of 2"},
                 {[] {
                    avg_pool2d(i64({2, 2}), 2);
                  },
                  "avg_pool2d: expected float32 or float64, got int64"}};
  return rows;
}

/// p (C) reshaped to broadcast with x (N, C, ...).
Tensor beside(const Tensor& x, const Tensor& p) {
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = x.size(1);
  return p.reshape(shape);
}

Tensor composed_batch_norm(const Tensor& x, double eps) {
  Axes others{0};
  for (int i = 2; i < x.rank(); ++i) others.push_back(i);
  return (x - mean(x, others, keepdim)) / sqrt(var(x, others, 0, keepdim) + eps);
}

Sample of_channels(const Shape& shape) {
  return {normal(shape), normal({shape[1]}), normal({shape[1]})};
}

std::vector<OpRow> batch_norm_rows() {
  std::vector<OpRow> rows{
      {.name = "batch_norm",
       .f = [](const Tensors& x) { return Tensors{batch_norm(x[0], x[1], x[2]).y}; },
       .samples = {of_channels({4, 2}), of_channels({2, 2, 2, 1}), of_channels({1, 2, 17}),
                   of_channels({2, 1, 3, 6}), of_channels({0, 2, 3}), of_channels({3, 0, 20}),
                   of_channels({2, 2, 0})},
       .large = {of_channels({7, 5, 31, 43}), of_channels({600, 33}), of_channels({40, 3, 1031})},
       .composed =
           [](const Tensors& x) {
             return Tensors{composed_batch_norm(x[0], 1e-5) * beside(x[0], x[1]) +
                            beside(x[0], x[2])};
           },
       .bad = {{[] { batch_norm(f32({3})); }, "batch_norm: expected x (N, C, ...), got (3,)"},
               {[] {
                  batch_norm(i64({3, 2}));
                },
                "batch_norm: expected float32 or float64, got int64"},
               {[] {
                  batch_norm(f32({1, 2}));
                },
                "batch_norm: expected more than one element per channel, got x (1, 2)"},
               {[] {
                  batch_norm(f32({1, 2, 1, 1}));
                },
                "more than one element per channel"},
               {[] {
                  batch_norm(f32({3, 2}), f32({3}));
                },
                "batch_norm: expected weight of float32 (2,), got float32 (3,)"},
               {[] {
                  batch_norm(f32({3, 2}), {}, ones({2}, float64));
                },
                "batch_norm: expected bias of float32 (2,), got float64 (2,)"},
               {[] {
                  batch_norm(f32({3, 2}), {}, {}, -1);
                },
                "batch_norm: expected eps >= 0, got -1"}}},
      {.name = "batch_norm",
       .variant = "no weight, large eps, beside a residual",
       .f = [](const Tensors& x) { return Tensors{x[0] + batch_norm(x[0], {}, {}, 0.5).y}; },
       .samples = {{normal({3, 2})}, {normal({2, 2, 3})}, {normal({0, 2})}},
       .large = {{normal({7, 5, 31, 43})}},
       .composed = of_one([](const Tensor& x) { return x + composed_batch_norm(x, 0.5); })}};
  // The inputs are x, weight, bias, mean, and the logarithm of the variance.
  OpRow by{
      .name = "batch_norm_by",
      .f =
          [](const Tensors& x) {
            return Tensors{batch_norm_by(x[3], exp(x[4]), x[0], x[1], x[2])};
          },
      .samples = {of_channels({3, 2}), of_channels({2, 2, 1, 3}), of_channels({0, 2, 3})},
      .large = {of_channels({7, 5, 31, 43})},
      .composed =
          [](const Tensors& x) {
            auto b = [&](const Tensor& p) { return beside(x[0], p); };
            return Tensors{(x[0] - b(x[3])) * pow(exp(b(x[4])) + 1e-5, -0.5) * b(x[1]) + b(x[2])};
          },
      .bad = {{[] {
                 batch_norm_by(f32({3}), f32({2}), f32({4, 2}));
               },
               "batch_norm_by: expected"},
              {[] { batch_norm_by(f32({2}), f32({2}), f32({2})); },
               "batch_norm_by: expected x (N, C, ...)"}}};
  for (auto* samples : {&by.samples, &by.large})
    for (Sample& sample : *samples)
      for (int i = 0; i < 2; ++i) sample.push_back(sample[1]);
  rows.push_back(std::move(by));
  rows.push_back(
      {.name = "group_norm",
       .f = [](const Tensors& x) { return Tensors{group_norm(x[0], 2, x[1], x[2])}; },
       .samples = {of_channels({2, 2, 3}), of_channels({2, 4, 1, 2}), of_channels({3, 6}),
                   of_channels({0, 4, 3}), of_channels({2, 2, 0})},
       .large = {of_channels({7, 6, 31, 43})},
       .composed =
           [](const Tensors& x) {
             const int64_t n = x[0].size(0);
             const Tensor rows =
                 n == 0 || x[0].numel() == 0 ? x[0] : x[0].reshape({n * 2, x[0].numel() / n / 2});
             const Tensor d = x[0].numel() == 0 ? rows : rows - mean(rows, 1, keepdim);
             const Tensor y = x[0].numel() == 0 ? d : d / sqrt(mean(d * d, 1, keepdim) + 1e-5);
             return Tensors{y.reshape(x[0].shape()) * beside(x[0], x[1]) + beside(x[0], x[2])};
           },
       .bad = {{[] {
                  group_norm(f32({2, 4, 3}), 3);
                },
                "group_norm: 3 groups do not divide the channels of x (2, 4, 3)"},
               {[] {
                  group_norm(f32({2, 4, 3}), 0);
                },
                "group_norm: 0 groups"},
               {[] { group_norm(f32({2}), 1); }, "group_norm: expected x (N, C, ...), got (2,)"},
               {[] {
                  group_norm(f32({2, 4}), 2, f32({2}));
                },
                "group_norm: expected weight"}}});
  return rows;
}

}  // namespace

std::vector<OpRow> vision_rows() {
  std::vector<OpRow> all;
  for (auto rows : {max_pool_rows, resampling_rows, batch_norm_rows})
    for (OpRow& row : rows()) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::testing
