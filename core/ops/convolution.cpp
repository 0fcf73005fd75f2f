#include "gradus/core/ops/convolution.h"

#include "gradus/core/kernels/blas.h"
#include "gradus/core/kernels/convolution.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"

namespace gradus {

namespace {

using kernel::Planes;

/// One axis of the image and of the windows that slide over it.
struct WindowAxis {
  int64_t size = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
  int64_t out = 1;  // windows
  kernel::PaddedAxis around() const { return {size, padding, padding}; }
};

struct Windows {
  WindowAxis y, x;
  int64_t places() const { return y.kernel * x.kernel; }  // of a window
  int64_t count() const { return y.out * x.out; }         // of windows
  int64_t plane() const { return y.size * x.size; }
};

struct Problem {
  Windows windows;
  int64_t images, groups, in, out;  // in and out: channels of a group
  int64_t rows() const { return in * windows.places(); }
  double flops() const {
    return 2.0 * static_cast<double>(images * groups * out * windows.count()) *
           static_cast<double>(rows());
  }
};

WindowAxis axis_of(const char* name, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                   int64_t dilation) {
  constexpr int64_t most = int64_t{1} << 30;
  check(stride >= 1 && stride <= most && dilation >= 1 && dilation <= most && padding >= 0 &&
            padding <= most && size <= most && kernel <= most,
        "conv2d: expected stride and dilation from 1 and padding from 0 to 2^30, got ", stride,
        ", ", dilation, " and ", padding, " along the ", name);
  WindowAxis axis{size, kernel, stride, padding, dilation};
  const int64_t span = dilation * (kernel - 1) + 1;
  check(span <= axis.around().padded(), "conv2d: a window of ", kernel, " places at distance ",
        dilation, " is larger than the ", name, " ", size, " with padding ", padding);
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
        " / groups, h, w), groups dividing both, for x ", x.shape(), ", got ", weight.shape(),
        " and ", o.groups, " groups");
  check(is_floating(x.dtype()) && x.dtype() == weight.dtype(),
        "conv2d: expected float32 or float64 for x and weight alike, got ", x.dtype(), " and ",
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
        "conv2d: an image ", x.shape(), " with so much padding is too large: ", o.padding.height,
        " and ", o.padding.width);
  return p;
}

// ---- the composed form ----

/// The sum over a window's places of a product of channels: each place is a matrix (O, C).
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
      const Tensor place = weight.slice(2, u, u + 1).slice(3, v, v + 1).reshape({G, O / G, C});
      const Tensor term = matmul(place, seen.reshape({N, G, C, w.count()}));
      y = y.defined() ? y + term : term;
    }
  y = y.reshape({N, O, w.y.out, w.x.out});
  return bias.defined() ? y + bias.reshape({O, 1, 1}) : y;
}

// ---- the kernels ----

/// One axis of windows that slide by whole places of their planes: window i begins at windows[i]
/// and its result goes to targets[i]; filter place taps[j] meets what lies places[j] further on.
struct AxisSweep {
  std::vector<int64_t> windows, targets, places, taps;
};

/// The same for planes: windows are (y, x), places (channel, y, x).
struct Sweep {
  const Planes planes;
  const AxisSweep y, x;
  const int64_t width, filter_width;  // of a plane of results, of a filter
  std::vector<int64_t> places = {};

  Sweep(const Planes& p, int64_t channels, AxisSweep y_, AxisSweep x_, int64_t width_,
        int64_t filter_width_)
      : planes(p), y(std::move(y_)), x(std::move(x_)), width(width_), filter_width(filter_width_) {
    for (int64_t c = 0; c < channels; ++c)
      for (const int64_t down : y.places)
        for (const int64_t across : x.places)
          places.push_back(c * p.padded_plane() + down * p.x.padded() + across);
  }
  int64_t count() const { return std::ssize(y.windows) * std::ssize(x.windows); }
  int64_t taps() const { return std::ssize(y.taps) * std::ssize(x.taps); }
  int64_t tap(int64_t i) const {
    const auto across = x.taps.size(), n = static_cast<size_t>(i);
    return y.taps[n / across] * filter_width + x.taps[n % across];
  }
  /// Where windows [first, first + n) begin, and where their results go.
  void windows(int64_t first, int64_t n, int64_t* begins, int64_t* targets) const {
    size_t i = static_cast<size_t>(first) / x.windows.size();
    size_t j = static_cast<size_t>(first) % x.windows.size();
    for (int64_t r = 0; r < n; ++r) {
      begins[r] = y.windows[i] * planes.x.padded() + x.windows[j];
      targets[r] = y.targets[i] * width + x.targets[j];
      if (++j == x.windows.size()) j = 0, ++i;
    }
  }
};

/// Along an axis of x: window i begins at i s, with p zeros before the plane.
AxisSweep forward_axis(const WindowAxis& a) {
  AxisSweep sweep;
  for (int64_t i = 0; i < a.out; ++i)
    sweep.windows.push_back(i * a.stride), sweep.targets.push_back(i);
  for (int64_t u = 0; u < a.kernel; ++u)
    sweep.places.push_back(u * a.dilation), sweep.taps.push_back(u);
  return sweep;
}

/// Along an axis of dy, for those i of dx with (i + p) % s == phase: i met filter place u in window
/// (i + p - u d) / s, so only places with u d % s == phase.
AxisSweep backward_axis(const WindowAxis& a, int64_t before, int64_t phase) {
  AxisSweep sweep;
  for (int64_t i = 0; i < a.size; ++i)
    if ((i + a.padding) % a.stride == phase)
      sweep.windows.push_back((i + a.padding) / a.stride + before), sweep.targets.push_back(i);
  for (int64_t u = 0; u < a.kernel; ++u)
    if (u * a.dilation % a.stride == phase)
      sweep.places.push_back(-(u * a.dilation / a.stride)), sweep.taps.push_back(u);
  return sweep;
}

/// The zeros around dy that backward_axis reads.
kernel::PaddedAxis backward_padding(const WindowAxis& a) {
  const int64_t first = a.padding - a.dilation * (a.kernel - 1);
  const int64_t last = (a.size - 1 + a.padding) / a.stride;
  return {a.out, first < 0 ? (a.stride - 1 - first) / a.stride : 0,
          std::max<int64_t>(last - (a.out - 1), 0)};
}

/// Multiply-adds that are worth a chunk of a parallel loop.
constexpr int64_t least_work = int64_t{1} << 19;

template <class T>
int64_t panels_of(int64_t columns) {
  return (columns + kernel::panel_cols<T> - 1) / kernel::panel_cols<T>;
}

/// A matrix (k, columns), element (p, j) = at(p, j), as panels for window_gemm.
template <class T, class At>
void pack_panels(int64_t k, int64_t columns, T* to, At at) {
  constexpr int64_t width = kernel::panel_cols<T>;
  for (int64_t j = 0; j < columns; j += width)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t c = j; c < j + width; ++c) *to++ = c < columns ? at(p, c) : T{0};
}

/// y[n] (out planes of `plane`) = filters times the windows of x[n] (in planes), + bias. `panels`:
/// each group's filters, (places, out), packed.
template <class T>
void correlate(const Sweep& s, int64_t images, int64_t groups, int64_t in, int64_t out, const T* x,
               const T* panels, const T* bias, T* y, int64_t plane) {
  // Results are transposed from (windows, channels) to (channels, windows), whose rows lie apart by no
  // power of two, or all would share a few places of the cache.
  constexpr int64_t width = kernel::panel_cols<T>, most = 512,
                    transposed_width = most + kernel::lanes<T>;
  const int64_t k = std::ssize(s.places), count = s.count();
  const int64_t steps = std::max<int64_t>((k + 255) / 256, 1), step = (k + steps - 1) / steps;
  const int64_t parts = images * groups;
  const int64_t pieces = std::max<int64_t>((count + most - 1) / most, 1);
  const int64_t together = parts >= 8 ? pieces : 1, shares = (pieces + together - 1) / together;
  const int64_t grain = least_work / (std::min(count, together * most) * k * out + 1) + 1;
  parallel_for(parts * shares, grain, [&](int64_t begin, int64_t end) {
    const Scratch<T> padded(in * s.planes.padded_plane()), sums(most * width),
        transposed(width * transposed_width);
    int64_t begins[most], targets[most];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t part = unit / shares, g = part % groups,
                    first = unit % shares * together * most;
      const int64_t last = std::min(first + together * most, count);
      kernel::pad_planes(s.planes, in, x + part * in * s.planes.plane(), padded.data());
      for (int64_t i = first; i < last; i += most) {
        const int64_t m = std::min(most, last - i);
        s.windows(i, m, begins, targets);
        const bool in_a_row = targets[m - 1] - targets[0] == m - 1;
        for (int64_t j = 0; j < out; j += width) {
          const int64_t cols = std::min(width, out - j);
          const T* const panel = panels + (g * panels_of<T>(out) * width + j) * k;
          for (int64_t n = 0, p = 0; n < steps; ++n, p += step)
            kernel::window_gemm(p > 0, m, cols, std::clamp<int64_t>(k - p, 0, step), padded.data(),
                                begins, s.places.data() + p, panel + p * width, sums.data(), width);
          kernel::tile_transpose(m, width, T{1}, sums.data(), width, transposed.data(),
                                 transposed_width);
          for (int64_t o = 0; o < cols; ++o) {
            const T b = bias ? bias[g * out + j + o] : T{0};
            const T* const from = transposed.data() + o * transposed_width;
            T* const to = y + (part * out + j + o) * plane;
            if (in_a_row)
              simd_for(m, [=, to = to + targets[0]](int64_t r) { to[r] = from[r] + b; });
            else
              for (int64_t r = 0; r < m; ++r) to[targets[r]] = from[r] + b;
          }
        }
      }
    }
  });
}

template <class T>
void convolve(const Problem& p, const T* x, const T* weight, const T* bias, T* y) {
  const Windows& w = p.windows;
  const Sweep sweep({w.y.around(), w.x.around()}, p.in, forward_axis(w.y), forward_axis(w.x),
                    w.x.out, w.x.kernel);
  const int64_t k = p.rows(), size = k * panels_of<T>(p.out) * kernel::panel_cols<T>;
  const Scratch<T> panels(p.groups * size);
  for (int64_t g = 0; g < p.groups; ++g)
    pack_panels(
        k, p.out, panels.data() + g * size,
        [=, from = weight + g * p.out * k](int64_t q, int64_t o) { return from[o * k + q]; });
  correlate(sweep, p.images, p.groups, p.in, p.out, x, panels.data(), bias, y, w.count());
}

/// dx: with stride s the places of a plane fall into s phases an axis, each met by filter places of
/// its own or by none. Each is a convolution of dy that moves by one.
template <class T>
void convolve_back(const Problem& p, const T* dy, const T* weight, T* dx) {
  const Windows& w = p.windows;
  const Planes planes{backward_padding(w.y), backward_padding(w.x)};
  auto phases = [](const WindowAxis& a) { return std::min(a.stride, a.kernel * a.dilation); };
  if (w.y.stride > 1 || w.x.stride > 1)
    std::fill_n(dx, p.images * p.groups * p.in * w.plane(), T{0});
  for (int64_t y = 0; y < phases(w.y); ++y)
    for (int64_t x = 0; x < phases(w.x); ++x) {
      const Sweep sweep(planes, p.out, backward_axis(w.y, planes.y.before, y),
                        backward_axis(w.x, planes.x.before, x), w.x.size, w.x.kernel);
      if (sweep.count() == 0 || sweep.taps() == 0) continue;
      const int64_t k = std::ssize(sweep.places);
      const int64_t size = k * panels_of<T>(p.in) * kernel::panel_cols<T>;
      const Scratch<T> panels(p.groups * size);
      for (int64_t g = 0; g < p.groups; ++g)
        pack_panels(k, p.in, panels.data() + g * size, [&](int64_t q, int64_t c) {
          const int64_t o = q / sweep.taps(), tap = sweep.tap(q % sweep.taps());
          return weight[((g * p.out + o) * p.in + c) * w.places() + tap];
        });
      correlate<T>(sweep, p.images, p.groups, p.out, p.in, dy, panels.data(), nullptr, dx,
                   w.plane());
    }
}

/// dweight = sum over images of the windows of x[n], transposed, times dy[n]. Threads share images,
/// whose sums are added in order, and where that would take too much memory channels.
template <class T>
void weight_gradient(const Problem& p, const T* x, const T* dy, T* dweight) {
  constexpr int64_t width = kernel::panel_cols<T>, step = 256;
  const Windows& w = p.windows;
  const int64_t rows = p.rows(), columns = panels_of<T>(p.out) * width, count = w.count();
  const int64_t size = p.groups * rows * columns;
  const int64_t parts =
      std::max<int64_t>(std::min({(int64_t{1} << 20) / size, p.images, int64_t{16}}), 1);
  const int64_t per_part = (p.images + parts - 1) / parts;
  const int64_t shares = std::clamp<int64_t>(16 / (parts * p.groups), 1, p.in);
  const int64_t channels = (p.in + shares - 1) / shares;
  const Sweep sweep({w.y.around(), w.x.around()}, channels, forward_axis(w.y), forward_axis(w.x),
                    w.x.out, w.x.kernel);
  const Scratch<T> sums(parts * size);
  parallel_for(parts * p.groups * shares, 1, [&](int64_t begin, int64_t end) {
    const Scratch<T> padded(channels * sweep.planes.padded_plane()), panel(width * step);
    int64_t begins[step], targets[step];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t part = unit / shares / p.groups, g = unit / shares % p.groups;
      const int64_t c = unit % shares * channels, own = std::min(channels, p.in - c);
      if (own <= 0) continue;
      T* const sum = sums.data() + part * size + (g * rows + c * w.places()) * columns;
      std::fill_n(sum, own * w.places() * columns, T{0});
      for (int64_t n = part * per_part; n < std::min((part + 1) * per_part, p.images); ++n) {
        kernel::pad_planes(sweep.planes, own, x + ((n * p.groups + g) * p.in + c) * w.plane(),
                           padded.data());
        for (int64_t at = 0; at < count; at += step) {
          const int64_t k = std::min(step, count - at);
          sweep.windows(at, k, begins, targets);
          for (int64_t j = 0; j < p.out; j += width) {
            const int64_t cols = std::min(width, p.out - j);
            const blas::Product<T> from{.trans_b = true,
                                        .b = dy + ((n * p.groups + g) * p.out + j) * count + at,
                                        .ldb = count};
            kernel::detail::pack_panel(from, 0, k, 0, cols, panel.data());
            kernel::window_gemm(true, own * w.places(), cols, k, padded.data(), sweep.places.data(),
                                begins, panel.data(), sum + j, columns);
          }
        }
      }
    }
  });
  parallel_for_each(p.groups * rows, 65536 / (parts * columns) + 1, [&](int64_t row) {
    T* const total = sums.data() + row * columns;
    for (int64_t part = 1; part < parts; ++part)
      simd_for(p.out, [=, more = total + part * size](int64_t o) { total[o] += more[o]; });
    T* const to = dweight + row / rows * p.out * rows + row % rows;
    for (int64_t o = 0; o < p.out; ++o) to[o * rows] = total[o];
  });
}

template <class T>
void conv2d_backward(Backward& back, const Problem& p) {
  const Tensor x = back.input(0).contiguous(), weight = back.input(1).contiguous();
  const Tensor dy = take_grad(back).contiguous();
  const T *px = x.data<T>(), *pw = weight.data<T>(), *pdy = dy.data<T>();
  ProfileScope::count(p.flops() * (back.needs(0) + back.needs(1)), 0);
  if (back.needs(2)) back.give(2, sum(dy, {0, 2, 3}));
  if (back.needs(1)) {
    Tensor d = empty_like(weight);
    weight_gradient<T>(p, px, pdy, d.data<T>());
    back.give(1, std::move(d));
  }
  if (back.needs(0)) {
    Tensor d = empty_like(x);
    convolve_back<T>(p, pdy, pw, d.data<T>());
    back.give(0, std::move(d));
  }
}

/// Windows that lie side by side, as patches do: each is a row of a linear layer's input. The result
/// lies as (N, H', W', O).
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

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const ProfileScope scope("conv2d");
  const Problem p = problem_of(x, weight, bias, options);
  if (p.groups == 1 && x.numel() > 0 && side_by_side(p.windows.y) && side_by_side(p.windows.x))
    return of_patches(x, weight, bias, p.windows);
  const Tensor y = empty({x.size(0), weight.size(0), p.windows.y.out, p.windows.x.out}, x.dtype());
  const Tensor from = dense(x), by = dense(weight), b = dense(bias);
  ProfileScope::count(p.flops(), 0);
  dispatch_floating("conv2d", x.dtype(), [&]<class T>(TypeTag<T>) {
    convolve<T>(p, from.data<T>(), by.data<T>(), data_or_null<T>(b), y.data<T>());
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
