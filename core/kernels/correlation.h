#pragma once
// Convolution and its gradients on raw pointers, computed as matrix products with the windows of an
// image. convolution.h explains these products.

#include <vector>

#include "gradus/core/kernels/convolution.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/modes.h"

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

/// The sizes and options of a convolution. The input has shape (images, groups * in, y.size,
/// x.size), the weight (groups * out, in, y.kernel, x.kernel) and the result (images, groups * out,
/// y.out, x.out), where y and x are the members of `windows`.
struct ConvolutionShape {
  Windows windows;
  int64_t images, groups, in, out;        ///< in and out: channels per group
  bool rounded = core::modes().bfloat16;  ///< whether to round float32 operands of products to
                                          ///< bfloat16 (never done in builds without AVX512-BF16)
  int64_t rows() const { return in * windows.taps(); }
  double flops() const {
    return 2.0 * static_cast<double>(images * groups * out * windows.count()) *
           static_cast<double>(rows());
  }
};

namespace detail {

/// The windows along one axis of a padded plane. Window i starts at position windows[i], and its
/// result is stored at position targets[i]. The result is the sum over j of filter element taps[j]
/// times the plane's element at windows[i] + places[j].
struct AxisSweep {
  std::vector<int64_t> windows, targets, places, taps;
};

/// Up to `most` windows that are computed together. Window r starts at begins[r] in a padded plane,
/// and its result is stored at targets[r] in a result plane.
struct WindowBlock {
  static constexpr int64_t most = 512;
  int64_t count, begins[most], targets[most];
};

/// All windows over the padded planes of an image: each window of `y` combined with each window of
/// `x`. A plane holds one channel or, if its elements are Pairs, two channels. Windows and taps
/// (elements of a filter) are numbered row by row. `places` lists the offset of each tap from the
/// start of a window, first for plane 0, then for plane 1, and so on.
struct Sweep {
  const Planes planes;
  const AxisSweep y, x;
  const int64_t width, filter_width;  // widths of a result plane and of a filter
  std::vector<int64_t> places = {};

  Sweep(const Planes& p, int64_t count, AxisSweep y_, AxisSweep x_, int64_t width_,
        int64_t filter_width_)
      : planes(p), y(std::move(y_)), x(std::move(x_)), width(width_), filter_width(filter_width_) {
    for (int64_t c = 0; c < count; ++c)
      for (const int64_t down : y.places)
        for (const int64_t across : x.places)
          places.push_back(c * p.padded_plane() + down * p.x.padded() + across);
  }
  int64_t count() const { return std::ssize(y.windows) * std::ssize(x.windows); }
  int64_t taps() const { return std::ssize(y.taps) * std::ssize(x.taps); }
  /// Returns the index of this sweep's i-th tap in a filter that is stored row by row.
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

/// Returns the windows of a convolution along one axis of its input: window i starts at i * stride
/// in the padded plane. If `together` > 1, returns only the first window of each group of
/// `together` neighbours. If the number of windows is not a multiple of `together`, the last group
/// overlaps the group before it.
inline AxisSweep forward_axis(const WindowAxis& a, int64_t together = 1) {
  AxisSweep sweep;
  for (int64_t i = 0; i < a.out; i += together) {
    const int64_t first = std::max<int64_t>(std::min(i, a.out - together), 0);
    sweep.windows.push_back(first * a.stride), sweep.targets.push_back(first);
  }
  for (int64_t u = 0; u < a.kernel; ++u)
    sweep.places.push_back(u * a.dilation), sweep.taps.push_back(u);
  return sweep;
}

/// Returns the windows over one axis of dy (gradient of the result) that compute one phase of dx
/// (gradient of the input): the positions i of dx with (i + padding) % stride == phase. In the
/// forward pass, tap u of window w reads position w * stride + u * dilation - padding. A phase
/// therefore depends only on the taps u with u * dilation % stride == phase. The window for
/// position i starts at element (i + padding) / stride of dy. It extends backwards, so no offset in
/// `places` is positive. `before` is the number of zeros that precede dy.
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

/// Returns the axis of dy with the zero padding that the windows of backward_axis need.
inline PaddedAxis backward_padding(const WindowAxis& a) {
  const int64_t first = a.padding - a.dilation * (a.kernel - 1);
  const int64_t last = (a.size - 1 + a.padding) / a.stride;
  return {a.out, first < 0 ? (a.stride - 1 - first) / a.stride : 0,
          std::max<int64_t>(last - (a.out - 1), 0)};
}

/// The approximate minimum number of multiply-adds per chunk of Correlation's parallel loop. A
/// multiply-add of Pairs counts as one.
inline constexpr int64_t min_convolution_work = int64_t{1} << 19;

template <class T>
int64_t panels_of(int64_t columns) {
  return ceil_div(columns, panel_cols<T>);
}

/// Packs filters into panels for window_gemm. at(c, tap, j) must return the weight of filter j for
/// channel c at position `tap`. A column of a panel holds one filter. A row holds one tap of one
/// channel or, if E is Pair, one tap of two neighbouring channels.
template <class E, class At>
void pack_filters(int64_t channels, int64_t taps, int64_t filters, E* to, At at) {
  constexpr int64_t width = panel_cols<E>;
  alignas(64) Sum<E> rows[scalars<E> * width];
  for (int64_t j = 0; j < filters; j += width)
    for (int64_t c = 0; c < channels; c += scalars<E>)
      for (int64_t tap = 0; tap < taps; ++tap, to += width) {
        const int64_t n = std::min(scalars<E>, channels - c);
        for (int64_t r = 0; r < n; ++r)
          for (int64_t i = 0; i < width; ++i)
            rows[r * width + i] = j + i < filters ? at(c + r, tap, j + i) : Sum<E>{0};
        if constexpr (is_pair<E>)
          round_down(1, rows, width, n, width, to);
        else
          std::copy_n(rows, width, to);
      }
}

/// Correlates images with filters. The channels of an image are split into groups; a part is one
/// group of one image. The result of a part is one matrix product: its windows (count, k), one per
/// row, times the group's filters (k, out), with k = elements_of<E>(in) * taps. E is the element
/// type of the operands.
template <class E>
struct Correlation {
  using T = Sum<E>;
  const Sweep& sweep;               // the windows over elements_of<E>(in) planes
  int64_t images, groups, in, out;  // in, out: channels per group
  const T* x;                       // the input: (images, groups, in, elements of a plane)
  const E* panels;                  // the packed filters: per group, a matrix (depth(), out)
  const T* bias;                    // (groups, out), or null
  T* y;                             // the result: (images, groups, out, plane)
  int64_t plane;                    // elements in a plane of y

  void run() const;

 private:
  static constexpr int64_t width = panel_cols<E>, most = WindowBlock::most;
  // Row stride of the transposed results. With a power-of-two stride, all rows would fall into
  // the same few cache sets.
  static constexpr int64_t transposed_width = most + lanes<T>;

  /// The scratch memory of one thread.
  struct Space {
    explicit Space(const Correlation& c)
        : padded(elements_of<E>(c.in) * c.sweep.planes.padded_plane() + lanes<E>) {}
    Scratch<E> padded;                                // padded planes (elements_of<E>(in), plane)
    Scratch<T> sums{most * width};                    // results of the block (windows, filters)
    Scratch<T> transposed{width * transposed_width};  // the same results (filters, windows)
    WindowBlock block;
  };

  int64_t depth() const { return std::ssize(sweep.places); }
  void windows_times_filters(Space& space, int64_t cols, const E* panel) const;
  void store(Space& space, int64_t part, int64_t first, int64_t cols) const;
  void run_part(Space& space, int64_t part, int64_t first, int64_t last) const;
};

/// Computes space.sums (windows, cols) = the windows of space.block times the first `cols` filters
/// of a panel.
template <class E>
void Correlation<E>::windows_times_filters(Space& space, int64_t cols, const E* panel) const {
  const int64_t k = depth(), steps = std::max<int64_t>(ceil_div(k, 256), 1);
  const int64_t step = ceil_div(k, steps);
  for (int64_t n = 0, p = 0; n < steps; ++n, p += step)
    window_gemm(p > 0, space.block.count, cols, std::clamp<int64_t>(k - p, 0, step),
                space.padded.data(), space.block.begins, sweep.places.data() + p, panel + p * width,
                space.sums.data(), width);
}

/// Transposes space.sums to (filters, windows), adds the bias and writes the result to y's planes
/// for filters [first, first + cols).
template <class E>
void Correlation<E>::store(Space& space, int64_t part, int64_t first, int64_t cols) const {
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

/// Computes the results of windows [first, last) of one part (one group of one image).
template <class E>
void Correlation<E>::run_part(Space& space, int64_t part, int64_t first, int64_t last) const {
  pad_channels(sweep.planes, in, x + part * in * sweep.planes.plane(), space.padded.data());
  const E* const filters = panels + part % groups * panels_of<E>(out) * width * depth();
  for (int64_t i = first; i < last; i += most) {
    sweep.find_windows(i, std::min(most, last - i), space.block);
    for (int64_t j = 0; j < out; j += width) {
      const int64_t cols = std::min(width, out - j);
      windows_times_filters(space, cols, filters + j * depth());
      store(space, part, j, cols);
    }
  }
}

/// Computes y. Threads divide the work by parts, each of which is one group of one image. If there
/// are few parts, they also divide the windows of each part.
template <class E>
void Correlation<E>::run() const {
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

/// Computes the gradient of the weight. For each group, the gradient is the transpose of a matrix M
/// (rows, out), with rows = in * taps. M is the sum of (windows of x[n])^T dy[n] over all images n.
///
/// The images are divided into parts. Each part has its own array of sums (groups, rows, columns),
/// where `columns` is `out` rounded up to whole panels. At the end the arrays are added in the
/// order of the parts. If an array is large, there are fewer parts, to limit memory. Threads divide
/// the work by part and group. If there are few parts and groups, threads also divide the input
/// channels of each group.
///
/// If E is a Pair, an element holds two bfloat16 numbers that are neighbours along the axis that
/// the product sums over. Here this axis is the windows, so windows are processed in pairs of
/// neighbours of the same row. If a row has an odd number of windows, its last pair consists of the
/// last two windows. The first of these two windows is also in the previous pair, so the last pair
/// uses 0 as the dy of this window. A single window in a row is paired with a dy of 0.
template <class E>
class WeightGradient {
 public:
  using T = Sum<E>;
  WeightGradient(const ConvolutionShape& shape, const T* image, const T* gradient)
      : p(shape), x(image), dy(gradient) {}
  void run(T* dweight) const;

 private:
  static constexpr int64_t width = panel_cols<E>, step = 256;

  /// The scratch memory of one thread.
  struct Space {
    explicit Space(const WeightGradient& g)
        : padded(g.channels * g.sweep.planes.padded_plane() + lanes<E>),
          panel(width * step),
          plane(is_pair<E> ? g.sweep.planes.padded_plane() + g.beside : 0),
          even_rows(g.is_odd ? g.p.out * g.even_count : 0) {}
    Scratch<E> padded;     // padded planes of an image (channels, plane)
    Scratch<E> panel;      // packed part of dy (windows, filters)
    Scratch<T> plane;      // a float32 plane with padding, before it is rounded
    Scratch<T> even_rows;  // dy with a 0 inserted in each row, to make the row length even
    WindowBlock block;
  };

  void take_image(Space& space, const T* image, int64_t own) const;
  void take_odd_rows(Space& space, const T* d) const;
  void add_image(Space& space, int64_t image_group, int64_t first, int64_t own, T* sum) const;
  void sum_part(Space& space, int64_t part, int64_t group, int64_t first, T* sums) const;
  void add_parts(T* sums, T* dweight) const;

  const ConvolutionShape& p;
  const Windows& w = p.windows;
  const T *x, *dy;
  const int64_t rows = p.rows(), columns = panels_of<E>(p.out) * width;
  const int64_t size = p.groups * rows * columns;  // elements in the sums of one part
  const int64_t parts =
      std::max<int64_t>(std::min({(int64_t{1} << 20) / size, p.images, int64_t{16}}), 1);
  const int64_t images = ceil_div(p.images, parts);  // images per part
  const int64_t shares = std::clamp<int64_t>(16 / (parts * p.groups), 1, p.in);
  const int64_t channels = ceil_div(p.in, shares);  // channels per parallel task
  // The distance in a padded plane between the two scalars of a Pair. Two neighbouring windows of a
  // row read these scalars at the same tap, so the distance is the stride. It is 0 if a row has a
  // single window, because the stride may then be larger than the plane.
  const int64_t beside = w.x.out > 1 ? w.x.stride : 0;
  const bool is_odd = is_pair<E> && w.x.out % 2 == 1;
  // The number of elements of dy per filter. If E is a Pair, it includes the zeros that
  // take_odd_rows inserts to make the length of each row even.
  const int64_t even_count = w.y.out * (is_odd ? w.x.out + 1 : w.x.out);
  const Sweep sweep{{w.y.around(), w.x.around()},  channels, forward_axis(w.y),
                    forward_axis(w.x, scalars<E>), w.x.out,  w.x.kernel};
};

/// Copies `own` channels of an image to space.padded, with padding. If E is a Pair, each scalar is
/// paired with the scalar that the next window reads at the same tap.
template <class E>
void WeightGradient<E>::take_image(Space& space, const T* image, int64_t own) const {
  const Planes& planes = sweep.planes;
  if constexpr (!is_pair<E>) {
    pad_planes(planes, own, image, space.padded.data());
  } else {
    std::fill_n(space.plane.data() + planes.padded_plane(), beside, T{0});
    for (int64_t c = 0; c < own; ++c) {
      pad_planes(planes, 1, image + c * planes.plane(), space.plane.data());
      round_down(1, space.plane.data(), beside, w.x.out > 1 ? 2 : 1, planes.padded_plane(),
                 space.padded.data() + c * planes.padded_plane());
    }
  }
}

/// Copies `d`, the rows of dy for one group of one image, to space.even_rows. Inserts a 0 before
/// the last element of each row or, in a row of a single element, after it. Each row has an odd
/// number of windows, one per element, but windows are processed in pairs. The last pair consists
/// of the last two windows. The first of these two is also in the previous pair, so the last pair
/// uses the 0 for it.
template <class E>
void WeightGradient<E>::take_odd_rows(Space& space, const T* d) const {
  T* to = space.even_rows.data();
  for (int64_t row = 0; row < p.out * w.y.out; ++row, d += w.x.out) {
    to = std::copy_n(d, w.x.out - 1, to);
    const T last = d[w.x.out - 1];
    *to++ = w.x.out > 1 ? T{0} : last;
    *to++ = w.x.out > 1 ? last : T{0};
  }
}

/// Adds (windows of channels [first, first + own))^T dy to sum (own * taps, columns), for one group
/// of one image. image_group is image * groups + group.
template <class E>
void WeightGradient<E>::add_image(Space& space, int64_t image_group, int64_t first, int64_t own,
                                  T* sum) const {
  take_image(space, x + (image_group * p.in + first) * w.plane(), own);
  const T* d = dy + image_group * p.out * w.count();
  if (is_odd) take_odd_rows(space, d);
  if (is_odd) d = space.even_rows.data();
  for (int64_t at = 0; at < sweep.count(); at += step) {
    const int64_t k = std::min(step, sweep.count() - at);
    sweep.find_windows(at, k, space.block);
    for (int64_t j = 0; j < p.out; j += width) {
      const int64_t cols = std::min(width, p.out - j);
      const Product<T> gradient{.trans_b = true, .b = d + j * even_count, .ldb = even_count};
      if constexpr (is_pair<E>)
        pack_pairs(gradient, 2 * at, 2 * k, 0, cols, space.panel.data());
      else
        pack_panel(gradient, at, k, 0, cols, space.panel.data());
      window_gemm(true, own * w.taps(), cols, k, space.padded.data(), sweep.places.data(),
                  space.block.begins, space.panel.data(), sum + j, columns);
    }
  }
}

/// Computes the weight gradient of one group over one part of the images, and writes it to this
/// part's array in `sums`. Covers up to `channels` input channels, from channel `first` on.
template <class E>
void WeightGradient<E>::sum_part(Space& space, int64_t part, int64_t group, int64_t first,
                                 T* sums) const {
  const int64_t own = std::min(channels, p.in - first);
  if (own <= 0) return;
  T* const sum = sums + part * size + (group * rows + first * w.taps()) * columns;
  std::fill_n(sum, own * w.taps() * columns, T{0});
  for (int64_t n = part * images; n < std::min((part + 1) * images, p.images); ++n)
    add_image(space, n * p.groups + group, first, own, sum);
}

/// Adds the sums of all parts and writes the total, transposed per group, to dweight (groups, out,
/// rows). Overwrites `sums`.
template <class E>
void WeightGradient<E>::add_parts(T* sums, T* dweight) const {
  parallel_for_each(p.groups * rows, 65536 / (parts * columns) + 1, [&](int64_t row) {
    T* const total = sums + row * columns;
    for (int64_t part = 1; part < parts; ++part)
      simd_for(p.out, [=, more = total + part * size](int64_t o) { total[o] += more[o]; });
    T* const to = dweight + row / rows * p.out * rows + row % rows;
    for (int64_t o = 0; o < p.out; ++o) to[o * rows] = total[o];
  });
}

template <class E>
void WeightGradient<E>::run(T* dweight) const {
  const Scratch<T> sums(parts * size);
  parallel_for(parts * p.groups * shares, 1, [&](int64_t begin, int64_t end) {
    Space space(*this);
    for (int64_t unit = begin; unit < end; ++unit)
      sum_part(space, unit / shares / p.groups, unit / shares % p.groups, unit % shares * channels,
               sums.data());
  });
  add_parts(sums.data(), dweight);
}

template <class E>
void convolve(const ConvolutionShape& p, const Sum<E>* x, const Sum<E>* weight, const Sum<E>* bias,
              Sum<E>* y) {
  const Windows& w = p.windows;
  const Sweep sweep({w.y.around(), w.x.around()}, elements_of<E>(p.in), forward_axis(w.y),
                    forward_axis(w.x), w.x.out, w.x.kernel);
  const int64_t taps = w.taps(), k = std::ssize(sweep.places);
  const int64_t size = k * panels_of<E>(p.out) * panel_cols<E>;
  const Scratch<E> panels(p.groups * size);
  for (int64_t g = 0; g < p.groups; ++g)
    pack_filters(p.in, taps, p.out, panels.data() + g * size,
                 [=, from = weight + g * p.out * p.rows()](int64_t c, int64_t tap, int64_t o) {
                   return from[(o * p.in + c) * taps + tap];
                 });
  Correlation<E>{.sweep = sweep,
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

// Computes dx at the positions of one phase along y and one phase along x. Along an axis, a phase
// consists of the positions with the same (i + padding) % stride; see backward_axis. `sweep`
// contains the windows over dy for these positions.
template <class E>
void convolve_phase(const ConvolutionShape& p, const Sweep& sweep, const Sum<E>* dy,
                    const Sum<E>* weight, Sum<E>* dx) {
  const int64_t k = std::ssize(sweep.places), taps = p.windows.taps();
  const int64_t size = k * panels_of<E>(p.in) * panel_cols<E>;
  const Scratch<E> panels(p.groups * size);
  for (int64_t g = 0; g < p.groups; ++g)
    pack_filters(p.out, sweep.taps(), p.in, panels.data() + g * size,
                 [&](int64_t o, int64_t tap, int64_t c) {
                   return weight[((g * p.out + o) * p.in + c) * taps + sweep.tap(tap)];
                 });
  Correlation<E>{.sweep = sweep,
                 .images = p.images,
                 .groups = p.groups,
                 .in = p.out,
                 .out = p.in,
                 .x = dy,
                 .panels = panels.data(),
                 .bias = nullptr,
                 .y = dx,
                 .plane = p.windows.plane()}
      .run();
}

template <class E>
void convolve_back(const ConvolutionShape& p, const Sum<E>* dy, const Sum<E>* weight, Sum<E>* dx) {
  const Windows& w = p.windows;
  const Planes planes{backward_padding(w.y), backward_padding(w.x)};
  auto phases = [](const WindowAxis& a) {
    return std::min(a.stride, (a.kernel - 1) * a.dilation + 1);
  };
  if (w.y.stride > 1 || w.x.stride > 1)
    std::fill_n(dx, p.images * p.groups * p.in * w.plane(), Sum<E>{0});
  for (int64_t y = 0; y < phases(w.y); ++y)
    for (int64_t x = 0; x < phases(w.x); ++x) {
      const Sweep sweep(planes, elements_of<E>(p.out), backward_axis(w.y, planes.y.before, y),
                        backward_axis(w.x, planes.x.before, x), w.x.size, w.x.kernel);
      if (sweep.count() > 0 && sweep.taps() > 0) convolve_phase<E>(p, sweep, dy, weight, dx);
    }
}

}  // namespace detail

/// Overwrites y with the convolution of x and `weight`, plus bias. ConvolutionShape describes their
/// shapes; bias is (groups * out) or null.
template <class T>
void convolve(const ConvolutionShape& p, const T* x, const T* weight, const T* bias, T* y) {
  with_elements<T>(p.rounded,
                   [&]<class E>(TypeTag<E>) { detail::convolve<E>(p, x, weight, bias, y); });
}

/// Overwrites dx with the gradient of x. With stride s, position i along an axis of dx belongs to
/// phase (i + padding) % s. All positions with the same phase along y and the same phase along x
/// depend on the same filter taps. dx at these positions is a stride-1 correlation of dy with these
/// taps, or 0 if there are none.
template <class T>
void convolve_back(const ConvolutionShape& p, const T* dy, const T* weight, T* dx) {
  with_elements<T>(p.rounded,
                   [&]<class E>(TypeTag<E>) { detail::convolve_back<E>(p, dy, weight, dx); });
}

/// Overwrites dweight with the gradient of the weight.
template <class T>
void convolve_weight(const ConvolutionShape& p, const T* x, const T* dy, T* dweight) {
  with_elements<T>(p.rounded,
                   [&]<class E>(TypeTag<E>) { detail::WeightGradient<E>(p, x, dy).run(dweight); });
}

}  // namespace gradus::kernel
