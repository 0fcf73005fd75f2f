#include "gradus/core/ops/resampling.h"

#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"

namespace gradus {

namespace {

constexpr int64_t grain = 16384;

/// `count` windows along an axis of n: window i covers the positions i stride - padding + k
/// dilation, 0 <= k < kernel, that lie in [0, n), of which there is at least one.
struct Window {
  int64_t n, kernel, stride, padding, dilation, count;

  // Long parameter list: all that PyTorch's pooling says about an axis.
  Window(const char* op, const Tensor& x, int axis, int64_t k, int64_t s, int64_t p, int64_t d)
      : n(x.rank() >= 2 ? x.size(axis) : 0), kernel(k), stride(s == 0 ? k : s), padding(p) {
    dilation = d;
    const bool valid = std::min({n, k, stride, d}) >= 1 && p >= 0 && p <= k / 2 &&
                       std::max({k, stride, d}) <= INT32_MAX;
    const int64_t least = valid ? (k - 1) * d + 1 - 2 * p : 0;
    // With taps more than n apart, a window could span the whole axis and have no tap on it.
    check(valid && least <= n && (k == 1 || d <= n), op, ": a window of ", k, " with stride ",
          stride, ", padding ", p, " (at most half the window) and dilation ", d,
          " does not fit x (..., H, W) ", x.shape());
    count = (n - least) / stride + 1;
  }
};

// ---- max pooling ----

/// The maximum of each window in row i of the windows over a plane (H, W), and its index in the
/// plane.
template <class T>
void max_pool_row(const T* x, const Window& h, const Window& w, int64_t i, T* y, int32_t* index) {
  std::fill_n(index, w.count, -1);
  for (int64_t u = 0; u < h.kernel; ++u) {
    const int64_t row = i * h.stride - h.padding + u * h.dilation;
    if (row < 0 || row >= h.n) continue;
    for (int64_t v = 0; v < w.kernel; ++v) {
      const int64_t shift = v * w.dilation - w.padding;  // windows [begin, end) have this tap
      const int64_t begin = shift < 0 ? (w.stride - 1 - shift) / w.stride : 0;
      const int64_t end = shift < w.n ? std::min((w.n - 1 - shift) / w.stride + 1, w.count) : 0;
      simd_for(end - begin, [=, at = row * w.n + shift + begin * w.stride, stride = w.stride,
                             y = y + begin, index = index + begin](int64_t j) {
        const T value = x[at + j * stride];
        const bool wins = (value > y[j]) | (value != value) | (index[j] < 0);
        y[j] = wins ? value : y[j];
        index[j] = wins ? static_cast<int32_t>(at + j * stride) : index[j];
      });
    }
  }
}

/// Like max_pool_row for adjacent 2 x 2 windows. Compares the four elements of a window in one
/// pass, which is limited only by memory bandwidth.
template <class T>
void max_pool_row_of_2(const T* x, const Window& w, int64_t i, T* y, int32_t* index) {
  const auto start = static_cast<int32_t>(2 * i * w.n), down = static_cast<int32_t>(w.n);
  simd_for(w.count, [=, x = x + start, below = x + start + down](int64_t j) {
    T best = x[2 * j];
    int32_t at = 0;
    auto meet = [&](T value, int32_t other) {
      const bool wins = (value > best) | (value != value);
      best = wins ? value : best;
      at = wins ? other : at;
    };
    meet(x[2 * j + 1], 1);
    meet(below[2 * j], down);
    meet(below[2 * j + 1], down + 1);
    y[j] = best;
    index[j] = start + static_cast<int32_t>(2 * j) + at;
  });
}

}  // namespace

// y_i = x[index_i], index_i the position of the maximum in window i          dx[index_i] += dy_i
Tensor max_pool2d(const Tensor& x, Size2d k, const MaxPool2dOptions& o) {
  const ProfileScope scope("max_pool2d");
  const Size2d s = o.stride, p = o.padding, d = o.dilation;
  const Window h("max_pool2d", x, -2, k.height, s.height, p.height, d.height);
  const Window w("max_pool2d", x, -1, k.width, s.width, p.width, d.width);
  check(h.n <= INT32_MAX / w.n, "max_pool2d: a plane of x ", x.shape(), " is too large");
  const Tensor y = empty(x.shape().with(-2, h.count).with(-1, w.count), x.dtype());
  const Tensor from = dense(x);
  const int64_t size = h.n * w.n, count = h.count * w.count, planes = x.numel() / size;
  const auto indices = std::make_shared<Scratch<int32_t>>(planes * count);
  dispatch_floating("max_pool2d", x.dtype(), [&]<class T>(TypeTag<T>) {
    const bool of_2 = std::min({h.kernel, w.kernel, h.stride, w.stride}) == 2 &&
                      std::max({h.kernel, w.kernel, h.stride, w.stride}) == 2 &&
                      h.padding + w.padding == 0 && h.dilation * w.dilation == 1;
    parallel_for_each(planes * h.count, grain / (w.n * h.stride), [&](int64_t r) {
      const T* plane = from.data<T>() + r / h.count * size;
      T* to = y.data<T>() + r * w.count;
      int32_t* index = indices->data() + r * w.count;
      if (of_2)
        max_pool_row_of_2(plane, w, r % h.count, to, index);
      else
        max_pool_row(plane, h, w, r % h.count, to, index);
    });
  });
  record("max_pool2d", {y}, {x}, saves_nothing, [=](Backward& b) {
    if (b.create_graph()) {
      const Tensor index = empty({planes, count}, int64);
      std::copy_n(indices->data(), index.numel(), index.data<int64_t>());
      const Tensor dx = scatter_sum({planes, size}, 1, index, b.grad().reshape(index.shape()));
      return b.give(0, dx.reshape(b.input_shape(0)));
    }
    const Tensor dy = b.grad().contiguous(), dx = empty(b.input_shape(0), dy.dtype());
    dispatch_floating("max_pool2d", dy.dtype(), [&]<class T>(TypeTag<T>) {
      parallel_for_each(planes, grain / size, [&](int64_t plane) {
        const int32_t* index = indices->data() + plane * count;
        const T* g = dy.data<T>() + plane * count;
        T* to = dx.data<T>() + plane * size;
        std::fill_n(to, size, T{0});
        for (int64_t i = 0; i < count; ++i) to[index[i]] += g[i];
      });
    });
    b.give(0, dx);
  });
  return y;
}

// ---- linear maps along both axes ----

namespace {

/// y[to] += weight x[from]
struct Tap {
  int64_t from, to;
  double weight;
};

/// A linear map along an axis, from n elements to m, whose taps lie close together:
/// y_i = sum_k weight[k, i] x[start_i + k]. A weight of 0 ignores x, even if infinite.
struct Band {
  int64_t n, m, width = 1;
  Tensor start, weight;  // (m) int64; (width, m) float64

  Band(int64_t n_, int64_t m_, const std::vector<Tap>& taps)
      : n(n_), m(m_), start(full({m}, static_cast<double>(n), int64)) {
    int64_t* first = start.data<int64_t>();
    for (const Tap& t : taps) first[t.to] = std::min(first[t.to], t.from);
    for (const Tap& t : taps) width = std::max(width, t.from - first[t.to] + 1);
    weight = zeros({width, m}, float64);
    for (int64_t i = 0; i < m; ++i) first[i] = std::min(first[i], n - width);  // all in [0, n)
    for (const Tap& t : taps) weight.data<double>()[(t.from - first[t.to]) * m + t.to] += t.weight;
  }
};

/// Applies the band to x (outer, n, inner) and writes y (outer, m, inner). Vectors run along the
/// rows of length `inner` or, if inner is 1, along the m elements.
template <class T>
void apply(const Band& band, const T* x, int64_t outer, int64_t inner, T* y) {
  const int64_t *start = band.start.data<int64_t>(), m = band.m, width = band.width;
  const double* weight = band.weight.data<double>();
  const int64_t lines = inner == 1 ? 1 : m, line = inner == 1 ? m : inner;
  parallel_for(outer * lines, grain / (line * width), [&](int64_t unit, int64_t end) {
    const Scratch<double> scratch(line);
    double* sums = scratch.data();
    for (; unit < end; ++unit) {
      const int64_t i = unit % lines;
      const T* from = x + unit / lines * band.n * inner;
      std::fill_n(sums, line, 0.0);
      for (int64_t k = 0; k < width; ++k)
        if (const double a = weight[k * m + i]; inner == 1)
          simd_for(m, [=, w = weight + k * m](int64_t j) {
            sums[j] += w[j] == 0 ? 0 : w[j] * static_cast<double>(from[start[j] + k]);
          });
        else if (a != 0)
          simd_for(line, [=, row = from + (start[i] + k) * inner](int64_t j) {
            sums[j] += a * static_cast<double>(row[j]);
          });
      simd_for(line, [=, to = y + unit * line](int64_t j) { to[j] = static_cast<T>(sums[j]); });
    }
  });
}

// y_i = sum_k a_ik x_k along an axis, -2 or -1                 dx_k = sum_i a_ik dy_i
Tensor resample(const Tensor& x, int axis, const Band& band, const Band& transposed) {
  const int64_t inner = axis == -1 ? 1 : x.size(-1);
  const Tensor y = empty(x.shape().with(axis, band.m), x.dtype()), from = dense(x);
  dispatch_floating("resample", x.dtype(), [&]<class T>(TypeTag<T>) {
    apply(band, from.data<T>(), y.numel() / (band.m * inner), inner, y.data<T>());
  });
  record("resample", {y}, {x}, saves_nothing,
         [=](Backward& b) { b.give(0, resample(b.grad(), axis, transposed, band)); });
  return y;
}

/// x resized to `size`. Along each axis, from n elements to m, taps(axis, n, m, i, add) calls
/// add(k, weight) for each x_k that contributes to y_i.
template <class Taps>
Tensor resize(const char* op, Tensor x, Size2d size, Taps taps) {
  constexpr int64_t most = 1 << 24;
  check(is_floating(x.dtype()), op, ": expected float32 or float64, got ", x.dtype());
  check(x.rank() >= 2 && std::min({x.size(-2), x.size(-1), size.height, size.width}) >= 1 &&
            std::max(size.height, size.width) <= most,
        op, ": expected x (..., H, W) and a result of 1 to ", most, " rows and columns, got x ",
        x.shape(), " and a result of (", size.height, ", ", size.width, ")");
  const int small = size.height > x.size(-2) ? -1 : -2;  // first the axis that leaves less work
  for (int axis : {small, -3 - small}) {
    const int64_t n = x.size(axis), m = axis == -2 ? size.height : size.width;
    std::vector<Tap> there, back;
    for (int64_t i = 0; i < m; ++i)
      taps(axis, n, m, i, [&](int64_t k, double weight) {
        there.push_back({k, i, weight});
        back.push_back({i, k, weight});
      });
    x = resample(x, axis, Band(n, m, there), Band(m, n, back));
  }
  return x;
}

}  // namespace

// The mean over a window is the mean of its rows' means, so the axes are resampled separately.
Tensor avg_pool2d(const Tensor& x, Size2d k, const AvgPool2dOptions& o) {
  const ProfileScope scope("avg_pool2d");
  const Window h("avg_pool2d", x, -2, k.height, o.stride.height, o.padding.height, 1);
  const Window w("avg_pool2d", x, -1, k.width, o.stride.width, o.padding.width, 1);
  auto taps = [&](int axis, int64_t n, int64_t, int64_t i, auto add) {
    const Window& a = axis == -2 ? h : w;
    const int64_t first = i * a.stride - a.padding, begin = std::max<int64_t>(first, 0);
    const int64_t end = std::min(first + a.kernel, n);
    const int64_t count = o.count_include_pad ? a.kernel : end - begin;
    for (int64_t k = begin; k < end; ++k) add(k, 1 / static_cast<double>(count));
  };
  return resize("avg_pool2d", x, {h.count, w.count}, taps);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size) {
  const ProfileScope scope("adaptive_avg_pool2d");
  return resize("adaptive_avg_pool2d", x, size, [](int, int64_t n, int64_t m, int64_t i, auto add) {
    const int64_t begin = i * n / m, end = ((i + 1) * n + m - 1) / m;
    for (int64_t k = begin; k < end; ++k) add(k, 1 / static_cast<double>(end - begin));
  });
}

// nearest: y_i = x_floor(i r), r = n/m
// bilinear: y_i = (1 - t) x_k + t x_{k+1}, k + t = max((i + 1/2) n/m - 1/2, 0), or i (n-1)/(m-1)
Tensor interpolate(const Tensor& x, Size2d size, const InterpolateOptions& o) {
  const ProfileScope scope("interpolate");
  const bool nearest = o.mode == Interpolation::nearest;
  check(!nearest || !o.align_corners, "interpolate: align_corners needs bilinear, got nearest");
  return resize("interpolate", x, size, [&](int, int64_t n, int64_t m, int64_t i, auto add) {
    const auto from = static_cast<double>(n), to = static_cast<double>(m);
    const auto at = static_cast<double>(i);
    double position = o.align_corners ? at * (from - 1) / std::max(to - 1, 1.0)
                                      : std::max((at + 0.5) * from / to - 0.5, 0.0);
    if (nearest)  // in float, as PyTorch does for every dtype
      position = static_cast<float>(at) * static_cast<float>(from / to);
    const auto k = std::min(static_cast<int64_t>(position), n - 1);
    const double t = nearest || k + 1 == n ? 0 : position - static_cast<double>(k);
    add(k, 1 - t);
    if (t > 0) add(k + 1, t);
  });
}

}  // namespace gradus
