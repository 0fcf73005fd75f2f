#include "gradus/core/ops/convolution.h"

#include "gradus/core/kernels/correlation.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"

namespace gradus {

namespace {

using kernel::WindowAxis, kernel::Windows;
using Problem = kernel::ConvolutionShape;

/// A convolution op's name, and the expected shapes as its messages show them.
struct Form {
  const char *op, *x, *weight, *across;
  int rank;
  bool transposed;  // the weight's first axis counts the channels of x, not of the output
};
constexpr Form image_form{"conv2d", "(N, C, H, W)", "(O, C / groups, h, w)", "width", 4, false};
constexpr Form sequence_form{"conv1d", "(N, C, L)", "(O, C / groups, l)", "length", 3, false};
constexpr Form transposed_form{
    "conv_transpose2d", "(N, C, H, W)", "(C, O / groups, h, w)", "width", 4, true};

/// Throws Error unless x, weight and bias fit each other.
void check_operands(const Form& form, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int64_t groups) {
  check(x.rank() == form.rank && weight.rank() == form.rank && weight.numel() > 0, form.op,
        ": expected x ", form.x, " and a weight ", form.weight, ", got ", x.shape(), " and ",
        weight.shape());
  const int64_t channels = x.size(1), first = weight.size(0), second = weight.size(1);
  check(groups >= 1 && first % groups == 0 && channels % groups == 0 &&
            (form.transposed ? channels == first : channels / groups == second),
        form.op, ": expected a weight ", form.weight, " with C = ", channels,
        ", groups dividing C and O, for x ", x.shape(), ", got ", weight.shape(), " and ", groups,
        " groups");
  check(is_floating(x.dtype()) && x.dtype() == weight.dtype(), form.op,
        ": expected x and weight both float32 or both float64, got ", x.dtype(), " and ",
        weight.dtype());
  if (bias.defined())
    check_tensor(form.op, "bias", bias, x.dtype(), {form.transposed ? second * groups : first});
}

/// The options' limits, which keep products of two of them in range.
constexpr int64_t largest = int64_t{1} << 30;

void check_axis(const Form& form, const char* name, const WindowAxis& a) {
  check(a.size <= largest && a.kernel <= largest, form.op,
        ": expected x and weight up to 2^30 along the ", name, ", got ", a.size, " and ", a.kernel);
  check(a.stride >= 1 && a.stride <= largest && a.dilation >= 1 && a.dilation <= largest &&
            a.padding >= 0 && a.padding <= largest,
        form.op, ": expected stride and dilation from 1 and padding from 0 to 2^30, got ", a.stride,
        ", ", a.dilation, " and ", a.padding, " along the ", name);
}

void check_images(const Form& form, const Problem& p) {
  const kernel::PaddedAxis y = p.windows.y.around(), x = p.windows.x.around();
  check(static_cast<double>(std::max(p.in, p.out)) * static_cast<double>(y.padded()) *
                static_cast<double>(x.padded()) <
            1e13,
        form.op, ": an image of ", y.size, " x ", x.size, " is too large with padding ", y.before,
        " and ", x.before);
}

/// Returns the axis with `out` set to the number of windows that fit.
WindowAxis with_windows(const Form& form, const char* name, WindowAxis axis) {
  check_axis(form, name, axis);
  const int64_t span = axis.dilation * (axis.kernel - 1) + 1, padded = axis.around().padded();
  check(span <= padded, form.op, ": a window of ", axis.kernel, " with dilation ", axis.dilation,
        " is larger than the ", name, " ", axis.size, " with padding ", axis.padding);
  axis.out = (padded - span) / axis.stride + 1;
  return axis;
}

Problem problem_of(const Form& form, const Tensor& x, const Tensor& weight,
                   const Conv2dOptions& o) {
  const Windows windows{
      with_windows(
          form, "height",
          {x.size(2), weight.size(2), o.stride.height, o.padding.height, o.dilation.height}),
      with_windows(form, form.across,
                   {x.size(3), weight.size(3), o.stride.width, o.padding.width, o.dilation.width})};
  const Problem p{windows, x.size(0), o.groups, weight.size(1), weight.size(0) / o.groups};
  check_images(form, p);
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

// y = windows(x) W^T + b
//   dW = sum over images of dy^T windows(x)    db = sum dy    dx: dy correlated with W, per phase
Tensor convolved(const Form& form, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv2dOptions& options) {
  const ProfileScope scope("conv2d");
  const Problem p = problem_of(form, x, weight, options);
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

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  check_operands(image_form, x, weight, bias, options.groups);
  return convolved(image_form, x, weight, bias, options);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& o) {
  check_operands(sequence_form, x, weight, bias, o.groups);
  const Conv2dOptions options{.stride = {1, o.stride},
                              .padding = {0, o.padding},
                              .dilation = {1, o.dilation},
                              .groups = o.groups};
  return convolved(sequence_form, x.unsqueeze(2), weight.unsqueeze(2), bias, options).squeeze(2);
}

// ---- transposed ----

namespace {

/// An axis of a transposed convolution's result: its windows are the pixels of x.
WindowAxis enlarged(const char* name, WindowAxis axis, int64_t output_padding) {
  check_axis(transposed_form, name, axis);
  check(output_padding >= 0 && output_padding < std::max(axis.stride, axis.dilation),
        transposed_form.op,
        ": expected an output_padding from 0 and below stride or dilation, got ", output_padding,
        " with ", axis.stride, " and ", axis.dilation, " along the ", name);
  check(axis.out >= 1 && axis.out <= largest, transposed_form.op, ": expected a ", name,
        " from 1 to 2^30, got ", axis.out);
  axis.size = (axis.out - 1) * axis.stride - 2 * axis.padding + axis.dilation * (axis.kernel - 1) +
              output_padding + 1;
  check(axis.size >= 1 && axis.size <= largest, transposed_form.op, ": expected a result of ", name,
        " from 1 to 2^30, got ", axis.size);
  return axis;
}

/// Returns the convolution whose image has the result's shape and whose output has x's shape.
Problem transposed_problem(const Tensor& x, const Tensor& weight, const ConvTranspose2dOptions& o) {
  const Windows windows{enlarged("height",
                                 {.kernel = weight.size(2),
                                  .stride = o.stride.height,
                                  .padding = o.padding.height,
                                  .dilation = o.dilation.height,
                                  .out = x.size(2)},
                                 o.output_padding.height),
                        enlarged("width",
                                 {.kernel = weight.size(3),
                                  .stride = o.stride.width,
                                  .padding = o.padding.width,
                                  .dilation = o.dilation.width,
                                  .out = x.size(3)},
                                 o.output_padding.width)};
  const Problem p{windows, x.size(0), o.groups, weight.size(1), x.size(1) / o.groups};
  check_images(transposed_form, p);
  return p;
}

/// Multiplies each tap of the weight, a matrix (O, C), with x's pixels, adds the products up in an
/// image that includes the padding, and cuts the padding off.
Tensor composed_transpose(const Tensor& x, const Tensor& weight, const Problem& p) {
  const auto& [h, w] = p.windows;
  const int64_t N = p.images, G = p.groups, C = p.out, O = p.in;
  auto room = [](const WindowAxis& a) {
    return std::max((a.out - 1) * a.stride + a.dilation * (a.kernel - 1) + 1, a.padding + a.size);
  };
  const Shape wide{N, G * O, h.out, room(w)}, full = wide.with(2, room(h));
  Tensor y = zeros(full, x.dtype());
  for (int64_t u = 0; u < h.kernel; ++u)
    for (int64_t v = 0; v < w.kernel; ++v) {
      const Tensor tap = weight.slice(2, u, u + 1).slice(3, v, v + 1).reshape({G, C, O}).mT();
      const Tensor term =
          matmul(tap, x.reshape({N, G, C, h.out * w.out})).reshape({N, G * O, h.out, w.out});
      y = y + pad_slice(pad_slice(term, wide, 3, v * w.dilation, w.stride), full, 2, u * h.dilation,
                        h.stride);
    }
  return y.slice(2, h.padding, h.padding + h.size).slice(3, w.padding, w.padding + w.size);
}

template <class T>
void transposed_backward(Backward& back, const Problem& p) {
  const Tensor x = back.input(0).contiguous(), weight = back.input(1).contiguous();
  const Tensor dy = take_grad(back).contiguous();
  ProfileScope::count(p.flops() * (back.needs(0) + back.needs(1)), 0);
  if (back.needs(0)) {
    Tensor d = empty_like(x);
    kernel::convolve<T>(p, dy.data<T>(), weight.data<T>(), nullptr, d.data<T>());
    back.give(0, std::move(d));
  }
  if (back.needs(1)) {
    Tensor d = empty_like(weight);
    kernel::convolve_weight<T>(p, dy.data<T>(), x.data<T>(), d.data<T>());
    back.give(1, std::move(d));
  }
}

}  // namespace

// y is the gradient of conv2d's input if x is the gradient of conv2d's output.
//   dx = conv2d of dy    dW = sum over images of x^T windows(dy)
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  const ProfileScope scope("conv_transpose2d");
  check_operands(transposed_form, x, weight, bias, options.groups);
  const Problem p = transposed_problem(x, weight, options);
  const Windows& w = p.windows;
  const Tensor y = empty({p.images, p.groups * p.in, w.y.size, w.x.size}, x.dtype());
  const Tensor from = dense(x), by = dense(weight);
  ProfileScope::count(p.flops(), 0);
  dispatch_floating("conv_transpose2d", x.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::convolve_back<T>(p, from.data<T>(), by.data<T>(), y.data<T>());
  });
  record_fused(
      "conv_transpose2d", {y}, {x, weight}, saves_nothing,
      [p](auto& in) { return composed_transpose(in[0], in[1], p); },
      [p](Backward& b) {
        dispatch_floating("conv_transpose2d", b.input(0).dtype(),
                          [&]<class T>(TypeTag<T>) { transposed_backward<T>(b, p); });
      });
  return bias.defined() ? y + bias.reshape({-1, 1, 1}) : y;
}

}  // namespace gradus
