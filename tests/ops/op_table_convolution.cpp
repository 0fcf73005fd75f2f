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

std::vector<BadCall> bad_convolutions() {
  constexpr int64_t huge = int64_t{1} << 60;
  auto call = [](const Shape& x, const Shape& w, const Conv2dOptions& o, const char* message) {
    return BadCall{[=] { conv2d(f32(x), f32(w), {}, o); }, message};
  };
  return {
      call({3, 8, 8}, {4, 3, 3, 3}, {}, "conv2d: expected x (N, C, H, W) and a weight"),
      call({1, 3, 8, 8}, {4, 3, 3}, {}, "got (1, 3, 8, 8) and (4, 3, 3)"),
      call({1, 3, 8, 8}, {4, 2, 3, 3}, {}, "for x (1, 3, 8, 8), got (4, 2, 3, 3) and 1 groups"),
      call({1, 4, 8, 8}, {3, 2, 3, 3}, {.groups = 2}, "and 2 groups"),
      call({1, 3, 8, 8}, {4, 1, 3, 3}, {.groups = 2}, "C = 3, groups dividing C and O"),
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
      // 2^21 x 2^21 pixels are fewer than 10^13, but not four channels of them.
      call({1, 4, 3, 3}, {1, 4, 1, 1}, {.stride = 1 << 20, .padding = 1 << 20},
           "is too large with padding"),
      call({1, 1, 3, 3}, {4, 1, 1, 1}, {.stride = 1 << 20, .padding = 1 << 20},
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

OpRow sequence_row(const std::string& variant, const Conv1dOptions& o, std::vector<Sample> samples,
                   std::vector<Sample> large) {
  auto bias = [](const Tensors& x) { return x.size() > 2 ? x[2] : Tensor(); };
  const Conv2dOptions as_image{{1, o.stride}, {0, o.padding}, {1, o.dilation}, o.groups};
  return {.name = "conv1d",
          .variant = variant,
          .f = [=](const Tensors& x) { return Tensors{conv1d(x[0], x[1], bias(x), o)}; },
          .samples = std::move(samples),
          .large = std::move(large),
          .composed =
              [=](const Tensors& x) {
                const Tensor y = by_places(x[0].unsqueeze(2), x[1].unsqueeze(2), bias(x), as_image);
                return Tensors{y.squeeze(2)};
              }};
}

std::vector<OpRow> sequence_rows() {
  std::vector<OpRow> rows{
      sequence_row("plain", {},
                   {{normal({2, 2, 5}), normal({3, 2, 3}), normal({3})},
                    {normal({1, 1, 1}), normal({1, 1, 1})},
                    {normal({0, 2, 3}), normal({2, 2, 2}), normal({2})}},
                   {{normal({3, 5, 331}), normal({37, 5, 3}), normal({37})}}),
      sequence_row("all options", {.stride = 2, .padding = 2, .dilation = 3, .groups = 2},
                   {{normal({2, 2, 5}), normal({4, 1, 3}), normal({4})},
                    {normal({1, 4, 3}), normal({2, 2, 2})},
                    {normal({0, 4, 3}), normal({2, 2, 2}), normal({2})}},
                   {{normal({3, 6, 331}), normal({34, 3, 3}), normal({34})}}),
      sequence_row("patches", {.stride = 3},
                   {{normal({2, 2, 6}), normal({3, 2, 3}), normal({3})},
                    {normal({1, 1, 3}), normal({1, 1, 3})},
                    {normal({0, 1, 6}), normal({2, 1, 3}), normal({2})}},
                   {{normal({5, 3, 303}), normal({34, 3, 3}), normal({34})}})};
  auto call = [](const Shape& x, const Shape& w, const Conv1dOptions& o, const char* message) {
    return BadCall{[=] { conv1d(f32(x), f32(w), {}, o); }, message};
  };
  rows[0].bad = {
      call({1, 3, 8, 8}, {4, 3, 3, 3}, {},
           "conv1d: expected x (N, C, L) and a weight (O, C / groups"),
      call({1, 3, 8}, {4, 2, 3}, {}, "conv1d: expected a weight (O, C / groups, l) with C = 3"),
      call({1, 4, 8}, {3, 2, 3}, {.groups = 2}, "got (3, 2, 3) and 2 groups"),
      call({1, 1, 2}, {1, 1, 3}, {},
           "conv1d: a window of 3 with dilation 1 is larger than the length 2 with padding 0"),
      call({1, 1, 8}, {1, 1, 3}, {.stride = 0}, "conv1d: expected stride and dilation from 1"),
      call({1, 1, 8}, {1, 1, 3}, {.padding = -1}, "got 1, 1 and -1 along the length"),
      {[] {
         conv1d(f32({1, 1, 8}), f32({2, 1, 3}), f32({3}));
       },
       "conv1d: expected bias of float32 (2,), got float32 (3,)"},
      {[] {
         conv1d(f32({1, 1, 8}), f64({2, 1, 3}));
       },
       "conv1d: expected x and weight both float32 or both float64, got float32 and float64"}};
  return rows;
}

/// The convolution of x, with stride - 1 zeros between its pixels, with flipped filters whose
/// channels are swapped.
Tensor by_zeros_between(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& o) {
  const auto [s, p, d] = std::tuple{o.stride, o.padding, o.dilation};
  const int64_t C = x.size(1), O = weight.size(1), h = weight.size(2), w = weight.size(3);
  const Shape wide = x.shape().with(3, (x.size(3) - 1) * s.width + 1);
  const Tensor apart = pad_slice(pad_slice(x, wide, 3, 0, s.width),
                                 wide.with(2, (x.size(2) - 1) * s.height + 1), 2, 0, s.height);
  const int64_t across = d.width * (w - 1), down = d.height * (h - 1);
  const Tensor padded =
      pad(apart, {across, across + o.output_padding.width, down, down + o.output_padding.height});
  const Tensor filters = weight.reshape({o.groups, C / o.groups, O, h, w}).transpose(1, 2);
  const Tensor y = conv2d(padded, flip(filters.reshape({o.groups * O, C / o.groups, h, w}), {2, 3}),
                          bias, {.dilation = d, .groups = o.groups});
  return y.slice(2, p.height, y.size(2) - p.height).slice(3, p.width, y.size(3) - p.width);
}

OpRow transposed_row(const std::string& variant, const ConvTranspose2dOptions& o,
                     std::vector<Sample> samples, std::vector<Sample> large) {
  auto bias = [](const Tensors& x) { return x.size() > 2 ? x[2] : Tensor(); };
  return {.name = "conv_transpose2d",
          .variant = variant,
          .f = [=](const Tensors& x) { return Tensors{conv_transpose2d(x[0], x[1], bias(x), o)}; },
          .samples = std::move(samples),
          .large = std::move(large),
          .composed =
              [=](const Tensors& x) { return Tensors{by_zeros_between(x[0], x[1], bias(x), o)}; }};
}

std::vector<BadCall> bad_transposed_calls() {
  constexpr int64_t huge = int64_t{1} << 30;
  auto call = [](const Shape& x, const Shape& w, const ConvTranspose2dOptions& o,
                 const char* message) {
    return BadCall{[=] { conv_transpose2d(f32(x), f32(w), {}, o); }, message};
  };
  return {
      call({3, 8, 8}, {3, 4, 3, 3}, {}, "conv_transpose2d: expected x (N, C, H, W) and a weight"),
      call({1, 3, 8, 8}, {4, 3, 3, 3}, {},
           "conv_transpose2d: expected a weight (C, O / groups, h, w) with C = 3"),
      call({1, 3, 8, 8}, {3, 4, 3, 3}, {.groups = 2}, "got (3, 4, 3, 3) and 2 groups"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.stride = 0}, "got 0, 1 and 0 along the height"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.dilation = {1, huge + 1}}, "to 2^30"),
      call(
          {1, 1, 8, 8}, {1, 1, 3, 3}, {.output_padding = 1},
          "conv_transpose2d: expected an output_padding from 0 and below stride or dilation, got 1 "
          "with 1 and 1 along the height"),
      call({1, 1, 8, 8}, {1, 1, 3, 3}, {.stride = 2, .output_padding = {0, -1}},
           "got -1 with 2 and 1 along the width"),
      call({1, 1, 0, 8}, {1, 1, 3, 3}, {}, "conv_transpose2d: expected a height from 1 to 2^30"),
      call({1, 1, 2, 2}, {1, 1, 2, 2}, {.padding = 2},
           "conv_transpose2d: expected a result of height from 1 to 2^30, got -1"),
      call({1, 1, 3, 1}, {1, 1, 1, 1}, {.stride = huge}, "a result of height from 1 to 2^30"),
      call({1, 1, 2, 2}, {1, 1, 1, 1}, {.stride = 1 << 29}, "is too large with padding 0 and 0"),
      {[] {
         conv_transpose2d(f32({1, 2, 8, 8}), f32({2, 3, 3, 3}), f32({2}));
       },
       "conv_transpose2d: expected bias of float32 (3,), got float32 (2,)"},
      {[] {
         conv_transpose2d(f32({1, 1, 8, 8}), f64({1, 1, 3, 3}));
       },
       "got float32 and float64"}};
}

std::vector<OpRow> transposed_rows() {
  std::vector<OpRow> rows{
      transposed_row("plain", {},
                     {{normal({2, 2, 2, 3}), normal({2, 3, 2, 3}), normal({3})},
                      {normal({1, 1, 1, 1}), normal({1, 1, 1, 1})},
                      {normal({0, 2, 3, 3}), normal({2, 2, 2, 2}), normal({2})}},
                     {{normal({3, 5, 17, 31}), normal({5, 37, 3, 3}), normal({37})},
                      {normal({17, 31, 9, 10}), normal({31, 5, 5, 1}), normal({5})}}),
      transposed_row("stride", {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}},
                     {{normal({2, 2, 2, 3}), normal({2, 2, 3, 2}), normal({2})},
                      {normal({1, 1, 3, 1}), normal({1, 2, 2, 1})},
                      {normal({0, 1, 2, 2}), normal({1, 2, 2, 2}), normal({2})}},
                     {{normal({3, 5, 17, 31}), normal({5, 7, 4, 3}), normal({7})}}),
      transposed_row("dilation", {.padding = {2, 1}, .output_padding = {0, 1}, .dilation = {3, 2}},
                     {{normal({2, 2, 3, 2}), normal({2, 2, 2, 2}), normal({2})},
                      {normal({1, 1, 2, 1}), normal({1, 2, 3, 2})},
                      {normal({0, 1, 3, 2}), normal({1, 2, 2, 2}), normal({2})}},
                     {{normal({3, 5, 17, 31}), normal({5, 7, 3, 3}), normal({7})}}),
      transposed_row("groups",
                     {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2, .dilation = 3},
                     {{normal({2, 4, 2, 2}), normal({4, 2, 2, 2}), normal({4})},
                      {normal({1, 2, 1, 2}), normal({2, 1, 3, 2})},
                      {normal({0, 2, 2, 2}), normal({2, 1, 2, 2}), normal({2})}},
                     {{normal({3, 6, 17, 11}), normal({6, 35, 3, 3}), normal({70})}})};
  rows[0].bad = bad_transposed_calls();
  return rows;
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
      row("the patches' stride, with padding", {.stride = 2, .padding = 1},
          {{normal({2, 2, 4, 4}), normal({3, 2, 2, 2}), normal({3})},
           {normal({1, 1, 2, 2}), normal({1, 1, 2, 2})},
           {normal({0, 1, 4, 2}), normal({2, 1, 2, 2}), normal({2})}},
          {}),
      row("the patches' stride, with dilation", {.stride = 2, .dilation = 2},
          {{normal({2, 2, 4, 6}), normal({3, 2, 2, 2}), normal({3})},
           {normal({1, 1, 4, 4}), normal({1, 1, 2, 2})},
           {normal({0, 1, 4, 4}), normal({2, 1, 2, 2}), normal({2})}},
          {}),
      row("the patches' stride, with groups", {.stride = 2, .groups = 2},
          {{normal({2, 4, 4, 4}), normal({2, 2, 2, 2}), normal({2})},
           {normal({1, 2, 2, 2}), normal({4, 1, 2, 2})},
           {normal({0, 2, 4, 4}), normal({2, 1, 2, 2}), normal({2})}},
          {}),
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
  rows[0].bad = bad_convolutions();
  for (auto more : {sequence_rows, transposed_rows})
    for (OpRow& row : more()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
