// Rows of convolution.

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {

namespace {

/// Each output is a sum of products over channels and window positions, computed one position at a
/// time by broadcasting.
Tensor by_places(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv2dOptions& o) {
  const auto [s, p, d] = std::tuple{o.stride, o.padding, o.dilation};
  const Tensor padded = pad(x, {p.width, p.width, p.height, p.height});
  const int64_t h = weight.size(2), w = weight.size(3);
  const int64_t rows = (padded.size(2) - d.height * (h - 1) - 1) / s.height + 1;
  const int64_t cols = (padded.size(3) - d.width * (w - 1) - 1) / s.width + 1;
  std::vector<Tensor> groups;
  for (int64_t g = 0; g < o.groups; ++g) {
    const int64_t out = weight.size(0) / o.groups, in = weight.size(1);
    Tensor y = zeros({x.size(0), out, rows, cols}, x.dtype());
    for (int64_t u = 0; u < h; ++u)
      for (int64_t v = 0; v < w; ++v) {
        const int64_t top = u * d.height, left = v * d.width;
        const Tensor seen = padded.slice(1, g * in, (g + 1) * in)
                                .slice(2, top, top + (rows - 1) * s.height + 1, s.height)
                                .slice(3, left, left + (cols - 1) * s.width + 1, s.width);
        const Tensor by = weight.slice(0, g * out, (g + 1) * out).select(2, u).select(2, v);
        y = y + sum(seen.unsqueeze(1) * by.reshape({out, in, 1, 1}), 2);
      }
    groups.push_back(y);
  }
  const Tensor y = cat(groups, 1);
  return bias.defined() ? y + bias.reshape({-1, 1, 1}) : y;
}

OpRow row(const std::string& variant, const Conv2dOptions& o, std::vector<Sample> samples,
          std::vector<Sample> large) {
  auto bias = [](const Tensors& x) { return x.size() > 2 ? x[2] : Tensor(); };
  return {.name = "conv2d",
          .variant = variant,
          .f = [=](const Tensors& x) { return Tensors{conv2d(x[0], x[1], bias(x), o)}; },
          .samples = std::move(samples),
          .large = std::move(large),
          .composed = [=](const Tensors& x) { return Tensors{by_places(x[0], x[1], bias(x), o)}; }};
}

std::vector<BadCall> bad_calls() {
  constexpr int64_t huge = int64_t{1} << 60;
  auto call = [](const Shape& x, const Shape& w, const Conv2dOptions& o, const char* message) {
    return BadCall{[=] { conv2d(f32(x), f32(w), {}, o); }, message};
  };
  return {
      call({3, 8, 8}, {4, 3, 3, 3}, {}, "conv2d: expected x (N, C, H, W) and a weight"),
      call({1, 3, 8, 8}, {4, 3, 3}, {}, "got (1, 3, 8, 8) and (4, 3, 3)"),
      call({1, 3, 8, 8}, {4, 2, 3, 3}, {}, "for x (1, 3, 8, 8), got (4, 2, 3, 3) and 1 groups"),
      call({1, 4, 8, 8}, {3, 2, 3, 3}, {.groups = 2}, "and 2 groups"),
      call({1, 4, 8, 8}, {4, 4, 3, 3}, {.groups = 0}, "and 0 groups"),
      call({1, 4, 8, 8}, {4, 4, 3, 3}, {.groups = -1}, "and -1 groups"),
      call({1, 1, 8, 8}, {1, 1, 0, 3}, {}, "conv2d: expected x (N, C, H, W) and a weight"),
      call({1, 1, 8, 2}, {1, 1, 3, 3}, {}, "3 with dilation 1 is larger than the width 2"),
      call({1, 1, 4, 8}, {1, 1, 3, 3}, {.dilation = 2},
           "with dilation 2 is larger than the height 4"),
      call({1, 1, 0, 8}, {1, 1, 1, 1}, {}, "larger than the height 0 with padding 0"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.stride = 0}, "got 0, 1 and 0 along the height"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.stride = {1, -2}}, "got -2, 1 and 0 along the width"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.padding = -1}, "got 1, 1 and -1"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.padding = huge}, "to 2^30"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.dilation = huge}, "to 2^30"),
      call({1, 4, 3, 3}, {1, 4, 1, 1}, {.stride = 1 << 30, .padding = 1 << 30},
           "is too large with padding"),
      {[] {
         conv2d(f32({1, 1, 8, 8}), f32({2, 1, 3, 3}), f32({3}));
       },
       "conv2d: expected bias of float32 (2,), got float32 (3,)"},
      {[] {
         conv2d(f32({1, 1, 8, 8}), ones({2, 1, 3, 3}, float64));
       },
       "got float32 and float64"},
      {[] {
         conv2d(f32({1, 1, 8, 8}), f32({2, 1, 3, 3}), ones({2}, float64));
       },
       "got float64 (2,)"},
      {[] {
         conv2d(ones({1, 1, 8, 8}, int64), ones({2, 1, 3, 3}, int64));
       },
       "got int64 and int64"},
  };
}

}  // namespace

std::vector<OpRow> convolution_rows() {
  std::vector<OpRow> rows{
      row("plain", {},
          {{normal({2, 2, 3, 4}), normal({3, 2, 2, 3}), normal({3})},
           {normal({1, 1, 1, 1}), normal({1, 1, 1, 1}), normal({1})},
           {normal({0, 2, 3, 3}), normal({2, 2, 2, 2}), normal({2})},
           {normal({2, 3, 2, 2}), normal({2, 3, 1, 1})}},
          {{normal({3, 5, 33, 31}), normal({37, 5, 3, 3}), normal({37})},
           {normal({17, 31, 9, 10}), normal({5, 31, 5, 1}), normal({5})},
           {normal({1, 3, 70, 65}), normal({2, 3, 3, 7}), normal({2})}}),
      row("padding", {.padding = {1, 2}},
          {{normal({1, 2, 2, 3}), normal({2, 2, 3, 3}), normal({2})},
           {normal({2, 1, 1, 2}), normal({1, 1, 1, 2}), normal({1})},
           {normal({0, 1, 1, 2}), normal({2, 1, 3, 3}), normal({2})}},
          {{normal({3, 3, 33, 16}), normal({5, 3, 3, 5}), normal({5})}}),
      row("stride", {.stride = {2, 3}, .padding = 1},
          {{normal({2, 2, 4, 5}), normal({2, 2, 3, 3}), normal({2})},
           {normal({1, 1, 5, 7}), normal({2, 1, 1, 2})},
           {normal({0, 1, 5, 7}), normal({2, 1, 1, 2})}},
          {{normal({2, 3, 40, 61}), normal({7, 3, 3, 4}), normal({7})}}),
      row("a stride larger than the filter", {.stride = {4, 5}, .padding = 1},
          {{normal({2, 2, 5, 6}), normal({2, 2, 2, 3}), normal({2})},
           {normal({1, 1, 1, 1}), normal({1, 1, 3, 3})},
           {normal({0, 1, 5, 7}), normal({2, 1, 1, 2})}},
          {{normal({2, 3, 40, 61}), normal({7, 3, 2, 4}), normal({7})}}),
      row("patches", {.stride = 2},
          {{normal({2, 2, 4, 5}), normal({3, 2, 2, 2}), normal({3})},
           {normal({1, 1, 2, 2}), normal({1, 1, 2, 2})},
           {normal({0, 1, 4, 2}), normal({2, 1, 2, 2}), normal({2})}},
          {{normal({5, 3, 28, 30}), normal({34, 3, 2, 2}), normal({34})}}),
      row("dilation", {.stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 3}},
          {{normal({1, 2, 3, 5}), normal({2, 2, 3, 2}), normal({2})},
           {normal({2, 1, 1, 4}), normal({1, 1, 2, 2})},
           {normal({0, 2, 3, 5}), normal({2, 2, 3, 2}), normal({2})}},
          {{normal({2, 3, 33, 40}), normal({4, 3, 3, 3}), normal({4})}}),
      row("groups", {.padding = 1, .groups = 2},
          {{normal({2, 4, 2, 3}), normal({2, 2, 3, 3}), normal({2})},
           {normal({1, 2, 2, 2}), normal({4, 1, 1, 2})},
           {normal({0, 2, 2, 2}), normal({4, 1, 1, 2}), normal({4})}},
          {{normal({3, 6, 20, 21}), normal({70, 3, 3, 3}), normal({70})}}),
  };
  rows[0].bad = bad_calls();
  return rows;
}

}  // namespace gradus::testing
