#pragma once
// Convolution and its gradients over raw pointers, as products with windows. convolution.h explains
// these products and names the composed form.

#include <vector>

#include "gradus/core/kernels/convolution.h"
#include "gradus/core/runtime/allocator.h"

namespace gradus::kernel {

/// One axis of an image and of the windows that slide over it.
struct WindowAxis {
  int64_t size = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
  int64_t out = 1;  ///< number of windows
  PaddedAxis around() const { return {size, padding, padding}; }
};

struct Windows {
  WindowAxis y, x;
  int64_t taps() const { return y.kernel * x.kernel; }  ///< elements of a window, per channel
  int64_t count() const { return y.out * x.out; }       ///< number of windows
  int64_t plane() const { return y.size * x.size; }
};

/// The sizes of a convolution, and of its gradients.
struct ConvolutionShape {
  Windows windows;
  int64_t images, groups, in, out;  ///< in and out: channels per group
  int64_t rows() const { return in * windows.taps(); }
  double flops() const {
    return 2.0 * static_cast<double>(images * groups * out * windows.count()) *
           static_cast<double>(rows());
  }
};

namespace detail {

/// The windows along one axis of a padded plane. Window i starts at windows[i], and its result is
/// stored at targets[i]. Filter tap taps[j] is multiplied by the element at windows[i] + places[j].
struct AxisSweep {
  std::vector<int64_t> windows, targets, places, taps;
};

/// Up to `most` windows that are computed together. Window r starts at begins[r] in a padded plane,
/// and its result is stored at targets[r] in a result plane.
struct WindowBlock {
  static constexpr int64_t most = 512;
  int64_t count, begins[most], targets[most];
};

/// The windows over some channels of an image, combined from one sweep per axis. Windows and taps
/// are numbered in the order (y, x), places in the order (channel, y, x).
struct Sweep {
  const Planes planes;
  const AxisSweep y, x;
  const int64_t width, filter_width;  // widths of a result plane and of a filter
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
  /// Returns the index of this sweep's i-th tap in a filter (y, x).
  int64_t tap(int64_t i) const {
    const auto across = x.taps.size(), n = static_cast<size_t>(i);
    return y.taps[n / across] * filter_width + x.taps[n % across];
  }
  /// Fills `block` with windows [first, first + n), n <= WindowBlock::most.
  void find_windows(int64_t first, int64_t n, WindowBlock& block) const {
    size_t i = static_cast<size_t>(first) / x.windows.size();
    size_t j = static_cast<size_t>(first) % x.windows.size();
    block.count = n;
    for (int64_t r = 0; r < n; ++r) {
      block.begins[r] = y.windows[i] * planes.x.padded() + x.windows[j];
      block.targets[r] = y.targets[i] * width + x.targets[j];
      if (++j == x.windows.size()) j = 0, ++i;
    }
  }
};

/// Returns the sweep that computes conv(x) along an axis of x: window i starts at i * stride in the
/// padded plane.
inline AxisSweep forward_axis(const WindowAxis& a) {
  AxisSweep sweep;
  for (int64_t i = 0; i < a.out; ++i)
    sweep.windows.push_back(i * a.stride), sweep.targets.push_back(i);
  for (int64_t u = 0; u < a.kernel; ++u)
    sweep.places.push_back(u * a.dilation), sweep.taps.push_back(u);
  return sweep;
}

/// Returns the sweep along an axis of dy that computes one phase of dx. Let s, p and d be stride,
/// padding and dilation. The phase consists of the positions i with (i + p) % s == phase. In the
/// forward pass, tap u of window (i + p - u d) / s reads position i, so only taps with u d % s ==
/// phase contribute. They read dy from the start of a window backwards, so `places` are <= 0.
/// `before` zeros precede dy.
inline AxisSweep backward_axis(const WindowAxis& a, int64_t before, int64_t phase) {
  AxisSweep sweep;
  for (int64_t i = 0; i < a.size; ++i)
    if ((i + a.padding) % a.stride == phase)
      sweep.windows.push_back((i + a.padding) / a.stride + before), sweep.targets.push_back(i);
  for (int64_t u = 0; u < a.kernel; ++u)
    if (u * a.dilation % a.stride == phase)
      sweep.places.push_back(-(u * a.dilation / a.stride)), sweep.taps.push_back(u);
  return sweep;
}

/// Returns the axis of dy, padded with the zeros that the windows of backward_axis read.
inline PaddedAxis backward_padding(const WindowAxis& a) {
  const int64_t first = a.padding - a.dilation * (a.kernel - 1);
  const int64_t last = (a.size - 1 + a.padding) / a.stride;
  return {a.out, first < 0 ? (a.stride - 1 - first) / a.stride : 0,
          std::max<int64_t>(last - (a.out - 1), 0)};
}

/// About the least number of multiply-adds per chunk of the parallel loop of Correlation.
inline constexpr int64_t min_convolution_work = int64_t{1} << 19;

template <class T>
int64_t panels_of(int64_t columns) {
  return ceil_div(columns, panel_cols<T>);
}

/// Packs a matrix (k, columns) into panels for window_gemm. at(p, j) returns its element (p, j).
template <class T, class At>
void pack_panels(int64_t k, int64_t columns, T* to, At at) {
  constexpr int64_t width = panel_cols<T>;
  for (int64_t j = 0; j < columns; j += width)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t c = j; c < j + width; ++c) *to++ = c < columns ? at(p, c) : T{0};
}

/// Correlates images with filters. The channels of an image are split into groups, and one group of
/// one image is called a part. The result of a part is one product: windows (count, k) times
/// filters (k, out), with k = in * taps.
template <class T>
struct Correlation {
  const Sweep& sweep;
  int64_t images, groups, in, out;  // in, out: channels per group
  const T* x;                       // (images, groups, in, elements of a plane)
  const T* panels;                  // each group's filters, (k, out), packed
  const T* bias;                    // (groups, out), or null
  T* y;                             // (images, groups, out, plane)
  int64_t plane;                    // elements in a plane of y

  void run() const;

 private:
  static constexpr int64_t width = panel_cols<T>, most = WindowBlock::most;
  // Row stride of the transposed results. With a power-of-two stride, all rows would fall into
  // the same few cache sets.
  static constexpr int64_t transposed_width = most + lanes<T>;

  /// The scratch memory of one thread.
  struct Space {
    explicit Space(const Correlation& c) : padded(c.in * c.sweep.planes.padded_plane()) {}
    Scratch<T> padded;                                // (in, padded plane)
    Scratch<T> sums{most * width};                    // (windows, filters)
    Scratch<T> transposed{width * transposed_width};  // (filters, windows)
    WindowBlock block;
  };

  int64_t depth() const { return std::ssize(sweep.places); }
  void windows_times_filters(Space& space, int64_t cols, const T* panel) const;
  void store(Space& space, int64_t part, int64_t first, int64_t cols) const;
  void run_part(Space& space, int64_t part, int64_t first, int64_t last) const;
};

/// Computes space.sums (windows, cols) = the windows of space.block times the first `cols` filters
/// of a panel.
template <class T>
void Correlation<T>::windows_times_filters(Space& space, int64_t cols, const T* panel) const {
  const int64_t k = depth(), steps = std::max<int64_t>(ceil_div(k, 256), 1);
  const int64_t step = ceil_div(k, steps);
  for (int64_t n = 0, p = 0; n < steps; ++n, p += step)
    window_gemm(p > 0, space.block.count, cols, std::clamp<int64_t>(k - p, 0, step),
                space.padded.data(), space.block.begins, sweep.places.data() + p, panel + p * width,
                space.sums.data(), width);
}

/// Transposes space.sums to (filters, windows), adds the bias and writes the result to y's planes
/// for filters [first, first + cols).
template <class T>
void Correlation<T>::store(Space& space, int64_t part, int64_t first, int64_t cols) const {
  const int64_t m = space.block.count, *const targets = space.block.targets;
  const bool contiguous = targets[m - 1] - targets[0] == m - 1;
  tile_transpose(m, width, T{1}, space.sums.data(), width, space.transposed.data(),
                 transposed_width);
  for (int64_t o = 0; o < cols; ++o) {
    const T b = bias ? bias[part % groups * out + first + o] : T{0};
    const T* const from = space.transposed.data() + o * transposed_width;
    T* const to = y + (part * out + first + o) * plane;
    if (contiguous)
      simd_for(m, [=, to = to + targets[0]](int64_t r) { to[r] = from[r] + b; });
    else
      for (int64_t r = 0; r < m; ++r) to[targets[r]] = from[r] + b;
  }
}

/// Computes the results of windows [first, last) of one part.
template <class T>
void Correlation<T>::run_part(Space& space, int64_t part, int64_t first, int64_t last) const {
  pad_planes(sweep.planes, in, x + part * in * sweep.planes.plane(), space.padded.data());
  const T* const filters = panels + part % groups * panels_of<T>(out) * width * depth();
  for (int64_t i = first; i < last; i += most) {
    sweep.find_windows(i, std::min(most, last - i), space.block);
    for (int64_t j = 0; j < out; j += width) {
      const int64_t cols = std::min(width, out - j);
      windows_times_filters(space, cols, filters + j * depth());
      store(space, part, j, cols);
    }
  }
}

/// Computes y. Each thread runs whole parts or, if there are few parts, blocks of windows of a
/// part.
template <class T>
void Correlation<T>::run() const {
  const int64_t parts = images * groups, count = sweep.count();
  const int64_t blocks = std::max<int64_t>(ceil_div(count, most), 1);
  const int64_t together = parts >= 8 ? blocks : 1, shares = ceil_div(blocks, together);
  const int64_t share = together * most;  // windows per share
  const int64_t grain = min_convolution_work / (std::min(count, share) * depth() * out + 1) + 1;
  parallel_for(parts * shares, grain, [&](int64_t begin, int64_t end) {
    Space space(*this);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % shares * share;
      run_part(space, unit / shares, first, std::min(first + share, count));
    }
  });
}

/// Computes the gradient of the weight. For each group, the sum over images n of (windows of
/// x[n])^T dy[n] is a matrix M (rows, out) with rows = in * taps. The gradient is M^T. Here a part
/// is a range of images. Threads divide the work by part and group and, if there are few of these,
/// by shares of a group's input channels. Each part has its own sums (groups, rows, columns).
/// `columns` is `out` rounded up to whole panels. The sums are added in the order of the parts. To
/// limit memory, there are fewer parts if the sums are large.
template <class T>
class WeightGradient {
 public:
  WeightGradient(const ConvolutionShape& shape, const T* image, const T* gradient)
      : p(shape), x(image), dy(gradient) {}
  void run(T* dweight) const;

 private:
  static constexpr int64_t width = panel_cols<T>, step = 256;

  /// The scratch memory of one thread.
  struct Space {
    explicit Space(const WeightGradient& g)
        : padded(g.channels * g.sweep.planes.padded_plane()), panel(width * step) {}
    Scratch<T> padded;  // (channels, padded plane)
    Scratch<T> panel;   // (windows, filters)
    WindowBlock block;
  };

  void add_image(Space& space, int64_t image_group, int64_t first, int64_t own, T* sum) const;
  void sum_part(Space& space, int64_t part, int64_t group, int64_t first, T* sums) const;
  void add_parts(T* sums, T* dweight) const;

  const ConvolutionShape& p;
  const Windows& w = p.windows;
  const T *x, *dy;
  const int64_t rows = p.rows(), columns = panels_of<T>(p.out) * width;
  const int64_t size = p.groups * rows * columns;  // elements in the sums of one part
  const int64_t parts =
      std::max<int64_t>(std::min({(int64_t{1} << 20) / size, p.images, int64_t{16}}), 1);
  const int64_t images = ceil_div(p.images, parts);  // images per part
  const int64_t shares = std::clamp<int64_t>(16 / (parts * p.groups), 1, p.in);
  const int64_t channels = ceil_div(p.in, shares);  // channels per share
  const Sweep sweep{{w.y.around(), w.x.around()},
                    channels,
                    forward_axis(w.y),
                    forward_axis(w.x),
                    w.x.out,
                    w.x.kernel};
};

/// Adds (windows of channels [first, first + own))^T dy to sum (own * taps, columns), for one group
/// of one image. image_group is image * groups + group.
template <class T>
void WeightGradient<T>::add_image(Space& space, int64_t image_group, int64_t first, int64_t own,
                                  T* sum) const {
  const int64_t count = w.count();
  pad_planes(sweep.planes, own, x + (image_group * p.in + first) * w.plane(), space.padded.data());
  for (int64_t at = 0; at < count; at += step) {
    const int64_t k = std::min(step, count - at);
    sweep.find_windows(at, k, space.block);
    for (int64_t j = 0; j < p.out; j += width) {
      const int64_t cols = std::min(width, p.out - j);
      const Product<T> gradient{
          .trans_b = true, .b = dy + (image_group * p.out + j) * count + at, .ldb = count};
      pack_panel(gradient, 0, k, 0, cols, space.panel.data());
      window_gemm(true, own * w.taps(), cols, k, space.padded.data(), sweep.places.data(),
                  space.block.begins, space.panel.data(), sum + j, columns);
    }
  }
}

/// Computes the sums of one part for one share of a group's channels, starting at channel `first`.
template <class T>
void WeightGradient<T>::sum_part(Space& space, int64_t part, int64_t group, int64_t first,
                                 T* sums) const {
  const int64_t own = std::min(channels, p.in - first);
  if (own <= 0) return;
  T* const sum = sums + part * size + (group * rows + first * w.taps()) * columns;
  std::fill_n(sum, own * w.taps() * columns, T{0});
  for (int64_t n = part * images; n < std::min((part + 1) * images, p.images); ++n)
    add_image(space, n * p.groups + group, first, own, sum);
}

/// Writes dweight (groups, out, rows) = the total of all parts' sums, transposed per group.
template <class T>
void WeightGradient<T>::add_parts(T* sums, T* dweight) const {
  parallel_for_each(p.groups * rows, 65536 / (parts * columns) + 1, [&](int64_t row) {
    T* const total = sums + row * columns;
    for (int64_t part = 1; part < parts; ++part)
      simd_for(p.out, [=, more = total + part * size](int64_t o) { total[o] += more[o]; });
    T* const to = dweight + row / rows * p.out * rows + row % rows;
    for (int64_t o = 0; o < p.out; ++o) to[o * rows] = total[o];
  });
}

template <class T>
void WeightGradient<T>::run(T* dweight) const {
  const Scratch<T> sums(parts * size);
  parallel_for(parts * p.groups * shares, 1, [&](int64_t begin, int64_t end) {
    Space space(*this);
    for (int64_t unit = begin; unit < end; ++unit)
      sum_part(space, unit / shares / p.groups, unit / shares % p.groups, unit % shares * channels,
               sums.data());
  });
  add_parts(sums.data(), dweight);
}

}  // namespace detail

/// Overwrites y with conv(x) + bias. bias may be null.
template <class T>
void convolve(const ConvolutionShape& p, const T* x, const T* weight, const T* bias, T* y) {
  using namespace detail;
  const Windows& w = p.windows;
  const Sweep sweep({w.y.around(), w.x.around()}, p.in, forward_axis(w.y), forward_axis(w.x),
                    w.x.out, w.x.kernel);
  const int64_t k = p.rows(), size = k * panels_of<T>(p.out) * panel_cols<T>;
  const Scratch<T> panels(p.groups * size);
  for (int64_t g = 0; g < p.groups; ++g)
    pack_panels(
        k, p.out, panels.data() + g * size,
        [=, from = weight + g * p.out * k](int64_t q, int64_t o) { return from[o * k + q]; });
  Correlation<T>{.sweep = sweep,
                 .images = p.images,
                 .groups = p.groups,
                 .in = p.in,
                 .out = p.out,
                 .x = x,
                 .panels = panels.data(),
                 .bias = bias,
                 .y = y,
                 .plane = w.count()}
      .run();
}

/// Overwrites dx with the gradient of x. For stride s, the positions along an axis fall into s
/// phases (see backward_axis). Each phase has its own taps, possibly none. At the positions of a
/// pair of phases, one per axis, the gradient is a stride-1 correlation of dy with the pair's taps.
template <class T>
void convolve_back(const ConvolutionShape& p, const T* dy, const T* weight, T* dx) {
  using namespace detail;
  const Windows& w = p.windows;
  const Planes planes{backward_padding(w.y), backward_padding(w.x)};
  auto phases = [](const WindowAxis& a) {
    return std::min(a.stride, (a.kernel - 1) * a.dilation + 1);
  };
  if (w.y.stride > 1 || w.x.stride > 1)
    std::fill_n(dx, p.images * p.groups * p.in * w.plane(), T{0});
  for (int64_t y = 0; y < phases(w.y); ++y)
    for (int64_t x = 0; x < phases(w.x); ++x) {
      const Sweep sweep(planes, p.out, backward_axis(w.y, planes.y.before, y),
                        backward_axis(w.x, planes.x.before, x), w.x.size, w.x.kernel);
      if (sweep.count() == 0 || sweep.taps() == 0) continue;
      const int64_t k = std::ssize(sweep.places);
      const int64_t size = k * panels_of<T>(p.in) * panel_cols<T>;
      const Scratch<T> panels(p.groups * size);
      for (int64_t g = 0; g < p.groups; ++g)
        pack_panels(k, p.in, panels.data() + g * size, [&](int64_t q, int64_t c) {
          const int64_t o = q / sweep.taps(), tap = sweep.tap(q % sweep.taps());
          return weight[((g * p.out + o) * p.in + c) * w.taps() + tap];
        });
      Correlation<T>{.sweep = sweep,
                     .images = p.images,
                     .groups = p.groups,
                     .in = p.out,
                     .out = p.in,
                     .x = dy,
                     .panels = panels.data(),
                     .bias = nullptr,
                     .y = dx,
                     .plane = w.plane()}
          .run();
    }
}

/// Overwrites dweight with the gradient of the weight.
template <class T>
void convolve_weight(const ConvolutionShape& p, const T* x, const T* dy, T* dweight) {
  detail::WeightGradient<T>(p, x, dy).run(dweight);
}

}  // namespace gradus::kernel
