#include "gradus/core/ops/convolution.h"

#include "gradus/core/kernels/correlation.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"

namespace gradus {

namespace {

using kernel::WindowAxis, kernel::Windows;
using Problem = kernel::ConvolutionShape;

WindowAxis axis_of(const char* name, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                   int64_t dilation) {
  constexpr int64_t most = int64_t{1} << 30;
  check(stride >= 1 && stride <= most && dilation >= 1 && dilation <= most && padding >= 0 &&
            padding <= most && size <= most && kernel <= most,
        "conv2d: expected stride and dilation from 1 and padding from 0 to 2^30, got ", stride,
        ", ", dilation, " and ", padding, " along the ", name);
  WindowAxis axis{size, kernel, stride, padding, dilation};
  const int64_t span = dilation * (kernel - 1) + 1;
  check(span <= axis.around().padded(), "conv2d: a window of ", kernel, " with dilation ", dilation,
        " is larger than the ", name, " ", size, " with padding ", padding);
  axis.out = (axis.around().padded() - span) / stride + 1;
  return axis;
}

Problem problem_of(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dOptions& o) {
  check(x.rank() == 4 && weight.rank() == 4 && weight.numel() > 0,
        "conv2d: expected x (N, C, H, W) and a weight (O, C / groups, h, w), got ", x.shape(),
        " and ", weight.shape());
  check(o.groups >= 1 && weight.size(0) % o.groups == 0 && x.size(1) % o.groups == 0 &&
            x.size(1) / o.groups == weight.size(1),
        "conv2d: expected a weight (O, ", x.size(1),
        " / groups, h, w), groups dividing O and C, for x ", x.shape(), ", got ", weight.shape(),
        " and ", o.groups, " groups");
  check(is_floating(x.dtype()) && x.dtype() == weight.dtype(),
        "conv2d: expected x and weight both float32 or both float64, got ", x.dtype(), " and ",
        weight.dtype());
  if (bias.defined()) check_tensor("conv2d", "bias", bias, x.dtype(), {weight.size(0)});
  const Windows windows{axis_of("height", x.size(2), weight.size(2), o.stride.height,
                                o.padding.height, o.dilation.height),
                        axis_of("width", x.size(3), weight.size(3), o.stride.width, o.padding.width,
                                o.dilation.width)};
  const Problem p{windows, x.size(0), o.groups, weight.size(1), weight.size(0) / o.groups};
  check(static_cast<double>(std::max(p.in, p.out)) *
                static_cast<double>(windows.y.around().padded()) *
                static_cast<double>(windows.x.around().padded()) <
            1e13,
        "conv2d: image ", x.shape(), " is too large with padding ", o.padding.height, " and ",
        o.padding.width);
  return p;
}

// ---- the composed form ----

/// Computes the convolution as a sum over the weight's taps. Each tap is a matrix (O, C), which is
/// multiplied with the channels.
Tensor composed_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Conv2dOptions& o, const Windows& w) {
  const auto [ph, pw] = std::pair{o.padding.height, o.padding.width};
  const Tensor padded = pad(x, {pw, pw, ph, ph});
  const int64_t N = x.size(0), G = o.groups, O = weight.size(0), C = weight.size(1);
  Tensor y;
  for (int64_t u = 0; u < w.y.kernel; ++u)
    for (int64_t v = 0; v < w.x.kernel; ++v) {
      const int64_t top = u * w.y.dilation, left = v * w.x.dilation;
      const Tensor seen = padded.slice(2, top, top + (w.y.out - 1) * w.y.stride + 1, w.y.stride)
                              .slice(3, left, left + (w.x.out - 1) * w.x.stride + 1, w.x.stride);
      const Tensor tap = weight.slice(2, u, u + 1).slice(3, v, v + 1).reshape({G, O / G, C});
      const Tensor term = matmul(tap, seen.reshape({N, G, C, w.count()}));
      y = y.defined() ? y + term : term;
    }
  y = y.reshape({N, O, w.y.out, w.x.out});
  return bias.defined() ? y + bias.reshape({O, 1, 1}) : y;
}

// ---- the kernels ----

template <class T>
void conv2d_backward(Backward& back, const Problem& p) {
  const Tensor x = back.input(0).contiguous(), weight = back.input(1).contiguous();
  const Tensor dy = take_grad(back).contiguous();
  const T *px = x.data<T>(), *pw = weight.data<T>(), *pdy = dy.data<T>();
  ProfileScope::count(p.flops() * (back.needs(0) + back.needs(1)), 0);
  if (back.needs(2)) back.give(2, sum(dy, {0, 2, 3}));
  if (back.needs(1)) {
    Tensor d = empty_like(weight);
    kernel::convolve_weight<T>(p, px, pdy, d.data<T>());
    back.give(1, std::move(d));
  }
  if (back.needs(0)) {
    Tensor d = empty_like(x);
    kernel::convolve_back<T>(p, pdy, pw, d.data<T>());
    back.give(0, std::move(d));
  }
}

/// Computes a convolution over adjacent windows, such as patches, as a linear layer with one input
/// row per window. The result (N, O, H', W') is a view of a tensor (N, H', W', O).
Tensor of_patches(const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& w) {
  const Tensor rows = x.reshape({x.size(0), x.size(1), w.y.out, w.y.kernel, w.x.out, w.x.kernel})
                          .permute({0, 2, 4, 1, 3, 5})
                          .reshape({x.size(0), w.y.out, w.x.out, -1});
  return linear(rows, weight.reshape({weight.size(0), rows.size(-1)}), bias).permute({0, 3, 1, 2});
}

bool side_by_side(const WindowAxis& a) {
  return a.stride == a.kernel && a.kernel > 1 && a.dilation == 1 && a.padding == 0 &&
         a.size % a.kernel == 0;
}

kernel::ProductKernel kernel_for(const Problem& p, Dtype dtype) {
  const Windows& w = p.windows;
  const int64_t windows = p.images * w.count();
  return kernel::choose_product(
      {.operands = kernel::ProductOperands::windows,
       .m = windows,
       .n = p.out,
       .k = p.rows(),
       .disjoint = p.groups == 1 && windows > 0 && side_by_side(w.y) && side_by_side(w.x)},
      dtype);
}

}  // namespace

// y = windows(x) W^T + b
//   dW = sum over images of dy^T windows(x)    db = sum dy    dx: dy correlated with W, per phase
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const ProfileScope scope("conv2d");
  const Problem p = problem_of(x, weight, bias, options);
  if (kernel_for(p, x.dtype()) != kernel::ProductKernel::window)
    return of_patches(x, weight, bias, p.windows);
  const Tensor y = empty({x.size(0), weight.size(0), p.windows.y.out, p.windows.x.out}, x.dtype());
  const Tensor from = dense(x), by = dense(weight), b = dense(bias);
  ProfileScope::count(p.flops(), 0);
  dispatch_floating("conv2d", x.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::convolve<T>(p, from.data<T>(), by.data<T>(), data_or_null<T>(b), y.data<T>());
  });
  record_fused(
      "conv2d", {y}, {x, weight, bias}, saves_nothing,
      [options, w = p.windows](auto& in) {
        return composed_conv2d(in[0], in[1], in[2], options, w);
      },
      [p](Backward& back) {
        dispatch_floating("conv2d", back.input(0).dtype(),
                          [&]<class T>(TypeTag<T>) { conv2d_backward<T>(back, p); });
      });
  return y;
}

}  // namespace gradus
