#pragma once
// Recurrent layers over whole sequences. Rows of a batch do not touch each other, so each thread
// takes rows of its own through all steps and waits for nobody; the recurrent weight is packed once
// and stays in the caches of whoever reads it.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gradus/core/allocator.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/kernels/panel_gemm.h"
#include "gradus/core/parallel.h"

namespace gradus::kernel {

/// A matrix packed for many products: panels of columns, each in one piece.
template <class T>
class PackedMatrix {
 public:
  /// (k, n) as it lies in memory or, transposed, from (n, k); under it `last` (n), unless null.
  PackedMatrix(const T* matrix, bool transposed, int64_t k, int64_t n, const T* last = nullptr)
      : k_(k + (last != nullptr)), n_(n), panels_(columns() * k_) {
    const Product<T> g{
        .trans_b = transposed, .n = n, .k = k, .b = matrix, .ldb = transposed ? k : n};
    parallel_for(columns() / width, 4, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin * width; j < end * width; j += width) {
        const int64_t cols = std::min(width, n - j);
        T* to = panels_.data() + j * k_;
        detail::pack_panel(g, 0, k, j, cols, to);
        if (last) std::fill(std::copy_n(last + j, cols, to + k * width), to + k_ * width, T{0});
      }
    });
  }
  int64_t rows() const { return k_; }
  /// n rounded up to whole panels, of which a product writes all.
  int64_t columns() const { return (n_ + width - 1) / width * width; }
  /// C (m, columns()) = A (m, rows()) times the matrix or, with `add`, C += it; ldc >= columns().
  void multiply(int64_t m, const T* a, int64_t lda, bool add, T* c, int64_t ldc) const {
    const int64_t steps = (k_ + detail::k_step - 1) / detail::k_step, step = (k_ - 1) / steps + 1;
    for (int64_t j = 0; j < n_; j += width)
      for (int64_t p = 0; p < k_; p += step)
        detail::panel_block<T, 2>(false, add || p > 0, m, std::min(step, k_ - p), a + p, lda,
                                  panels_.data() + j * k_ + p * width, c + j, ldc);
  }

 private:
  static constexpr int64_t width = panel_cols<T>;
  int64_t k_, n_;
  Scratch<T> panels_;
};

// ---- the cells: one row, one step ----

/// H hidden units. A row of gates holds each gate's H numbers, gate after gate.
template <class T>
struct CellForward {
  int64_t H;
  const T *x, *z;       ///< gates from the input and from h: (gates * H)
  const T *h, *c;       ///< (H); c: of LSTM, as all that is called so
  T* kept;              ///< what backward reads: (kept * H); may be z
  T *h_next, *h_again;  ///< written twice, to where the next step and where the caller reads
  T *c_next, *c_again;
};
template <class T>
struct CellBackward {
  int64_t H;
  const T *kept, *h_before, *c_before, *h, *c;  ///< before the step and after it
  const T* dy;                                  ///< of h_next from outside: (H)
  T *dh, *dc;  ///< in: from the next step; out: what goes back but for the product with the weight
  T *dz, *dx_n;  ///< of z: (gates * H); of x's gate n, of GRU
};

/// h' = act(x + z). Elman 1990.
template <class Act>
struct Rnn {
  static constexpr int64_t gates = 1, kept = 0;
  static constexpr bool has_c = false, direct = false;
  template <class T>
  static void forward(const CellForward<T>& s) {
    simd_for(s.H, [x = s.x, z = s.z, h = s.h_next, y = s.h_again](int64_t j) {
      h[j] = y[j] = Act::at(x[j] + z[j]).value;
    });
  }
  template <class T>
  static void backward(const CellBackward<T>& s) {
    simd_for(s.H, [h = s.h, dy = s.dy, dh = s.dh, dz = s.dz](int64_t j) {
      dz[j] = Act::gradient(dh[j] + dy[j], h[j]);
    });
  }
};

/// i, f, o = sigmoid, g = tanh of the gates i, f, g, o; c' = f c + i g; h' = o tanh(c').
/// Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.
struct Lstm {
  static constexpr int64_t gates = 4, kept = 4;
  static constexpr bool has_c = true, direct = false;
  template <class T>
  static void forward(const CellForward<T>& s) {
    simd_for(
        s.H, [=](int64_t j) __attribute__((always_inline)) {
          const int64_t H = s.H;
          const T i = sigmoid(s.x[j] + s.z[j]), f = sigmoid(s.x[H + j] + s.z[H + j]);
          const T g = tanh(s.x[2 * H + j] + s.z[2 * H + j]);
          const T o = sigmoid(s.x[3 * H + j] + s.z[3 * H + j]);
          const T c = f * s.c[j] + i * g;
          s.kept[j] = i, s.kept[H + j] = f, s.kept[2 * H + j] = g, s.kept[3 * H + j] = o;
          s.c_next[j] = s.c_again[j] = c;
          s.h_next[j] = s.h_again[j] = o * tanh(c);
        });
  }
  template <class T>
  static void backward(const CellBackward<T>& s) {
    simd_for(
        s.H, [=](int64_t j) __attribute__((always_inline)) {
          const int64_t H = s.H;
          const T i = s.kept[j], f = s.kept[H + j], g = s.kept[2 * H + j], o = s.kept[3 * H + j];
          const T t = tanh(s.c[j]), dh = s.dh[j] + s.dy[j], dc = s.dc[j] + dh * o * (1 - t * t);
          s.dz[j] = dc * g * (i * (1 - i));
          s.dz[H + j] = dc * s.c_before[j] * (f * (1 - f));
          s.dz[2 * H + j] = dc * i * (1 - g * g);
          s.dz[3 * H + j] = dh * t * (o * (1 - o));
          s.dc[j] = dc * f;
        });
  }
};

/// r, z = sigmoid of the gates r, z; n = tanh(x_n + r h_n); h' = (1 - z) n + z h. Cho et al. 2014,
/// arXiv 1406.1078, with r applied after the product with h. Kept: r, z, n, h_n.
struct Gru {
  static constexpr int64_t gates = 3, kept = 4;
  static constexpr bool has_c = false, direct = true;
  template <class T>
  static void forward(const CellForward<T>& s) {
    simd_for(
        s.H, [=](int64_t j) __attribute__((always_inline)) {
          const int64_t H = s.H;
          const T r = sigmoid(s.x[j] + s.z[j]), z = sigmoid(s.x[H + j] + s.z[H + j]);
          const T h_n = s.z[2 * H + j], n = tanh(s.x[2 * H + j] + r * h_n), h = s.h[j];
          s.kept[j] = r, s.kept[H + j] = z, s.kept[2 * H + j] = n, s.kept[3 * H + j] = h_n;
          s.h_next[j] = s.h_again[j] = n + z * (h - n);
        });
  }
  template <class T>
  static void backward(const CellBackward<T>& s) {
    simd_for(
        s.H, [=](int64_t j) __attribute__((always_inline)) {
          const int64_t H = s.H;
          const T r = s.kept[j], z = s.kept[H + j], n = s.kept[2 * H + j], h_n = s.kept[3 * H + j];
          const T dh = s.dh[j] + s.dy[j], dn = dh * (1 - z) * (1 - n * n);
          s.dz[j] = dn * h_n * (r * (1 - r));
          s.dz[H + j] = dh * (s.h_before[j] - n) * (z * (1 - z));
          s.dz[2 * H + j] = dn * r;
          s.dx_n[j] = dn;
          s.dh[j] = dh * z;
        });
  }
};

// ---- sequences ----

/// Which rows a thread takes, and in which order time runs for each.
class Sequences {
 public:
  int64_t batch, time, hidden;
  /// No lengths: all are `time` long. `work`: multiplications a row and step.
  Sequences(int64_t batch_, int64_t time_, int64_t hidden_, std::vector<int64_t> lengths,
            bool reverse, int64_t work)
      : batch(batch_), time(time_), hidden(hidden_), reverse_(reverse), lengths_(lengths) {
    if (lengths_.empty()) lengths_.assign(static_cast<size_t>(batch), time);
    order_.resize(lengths_.size());
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int64_t a, int64_t b) { return length(a) > length(b); });
    // A row's bits do not depend on what it shares a part with.
    const int64_t threads =
        work * time < (1 << 18) / std::max<int64_t>(batch, 1) ? 1 : num_threads();
    parts_ = std::min(std::max<int64_t>(threads, (batch + most_rows - 1) / most_rows), batch);
  }
  int64_t length(int64_t b) const { return lengths_[static_cast<size_t>(b)]; }
  /// Where row b's step s stands in memory, counted in rows of (batch, time, .).
  int64_t at(int64_t b, int64_t s) const { return b * time + (reverse_ ? length(b) - 1 - s : s); }
  /// body(rows) for each thread's rows, the longest first.
  template <class Body>
  void for_parts(Body body) const {
    parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        std::vector<int64_t> rows;
        for (int64_t i = part; i < batch; i += parts_)
          rows.push_back(order_[static_cast<size_t>(i)]);
        body(rows);
      }
    });
  }
  /// Clears the places of row b's padding in x (batch, time, n).
  template <class T>
  void clear_padding(int64_t b, int64_t n, T* x) const {
    std::fill(x + (b * time + length(b)) * n, x + (b + 1) * time * n, T{0});
  }

 private:
  static constexpr int64_t most_rows = 64;
  bool reverse_;
  std::vector<int64_t> lengths_, order_;
  int64_t parts_;
};

/// What goes through the steps: all (batch, time, .) or (batch, .), and null where there is none.
template <class T>
struct RecurrentForward {
  const T *x, *h0, *c0;
  T *y, *h_last, *c_last;
  T *kept, *c;  ///< for a backward pass
};
template <class T>
struct RecurrentBackward {
  const T *h0, *c0, *y, *kept, *c;
  const T *dy, *dh_last, *dc_last;
  T *dx, *dh0, *dc0;
  T* dz_n;      ///< of GRU: (batch, time, hidden); the other gates of dz are those of dx
  T* h_before;  ///< (batch, time, hidden), of which the weight's gradient is made
};

/// The i-th of rows of n, or `none` where there are no rows.
template <class T>
T* row_or(T* rows, int64_t i, int64_t n, T* none) {
  return rows ? rows + i * n : none;
}

/// `weight` is W^T (hidden, gates * hidden) with the bias, if any, as one row more.
template <class Cell, class T>
void recurrent_forward(const Sequences& q, const PackedMatrix<T>& weight,
                       const RecurrentForward<T>& a) {
  const int64_t H = q.hidden, depth = weight.rows();
  const int64_t width = std::max(weight.columns(), Cell::kept * H);
  q.for_parts([&](const std::vector<int64_t>& rows) {
    const auto n = static_cast<int64_t>(rows.size());
    const Scratch<T> h(n * depth), c(Cell::has_c ? n * H : 0), z(n * width);
    auto start = [&](const T* from, const Scratch<T>& to, int64_t stride) {
      for (int64_t i = 0; i < n; ++i)
        if (T* row = to.data() + i * stride; from)
          std::copy_n(from + rows[static_cast<size_t>(i)] * H, H, row);
        else
          std::fill_n(row, H, T{0});
    };
    start(a.h0, h, depth);
    if (Cell::has_c) start(a.c0, c, H);
    for (int64_t i = 0; depth > H && i < n; ++i) h[i * depth + H] = 1;
    int64_t active = n;
    for (int64_t s = 0; s < q.length(rows[0]); ++s) {
      while (q.length(rows[static_cast<size_t>(active - 1)]) <= s) --active;
      weight.multiply(active, h.data(), depth, false, z.data(), width);
      for (int64_t i = 0; i < active; ++i) {
        const int64_t b = rows[static_cast<size_t>(i)], at = q.at(b, s);
        T *hi = h.data() + i * depth, *ci = c.data() + i * H, *zi = z.data() + i * width;
        Cell::forward(CellForward<T>{.H = H,
                                     .x = a.x + at * Cell::gates * H,
                                     .z = zi,
                                     .h = hi,
                                     .c = ci,
                                     .kept = row_or(a.kept, at, Cell::kept * H, zi),
                                     .h_next = hi,
                                     .h_again = a.y + at * H,
                                     .c_next = ci,
                                     .c_again = row_or(a.c, at, H, ci)});
        if (s + 1 < q.length(b)) continue;
        std::copy_n(hi, H, a.h_last + b * H);
        if (Cell::has_c) std::copy_n(ci, H, a.c_last + b * H);
      }
    }
    for (const int64_t b : rows) q.clear_padding(b, H, a.y);
  });
}

/// `weight` is W (gates * hidden, hidden).
template <class Cell, class T>
void recurrent_backward(const Sequences& q, const PackedMatrix<T>& weight,
                        const RecurrentBackward<T>& a) {
  const int64_t H = q.hidden, gates = Cell::gates * H, width = weight.columns();
  const Scratch<T> zeros(H);
  std::fill_n(zeros.data(), H, T{0});
  const T* none = zeros.data();
  q.for_parts([&](const std::vector<int64_t>& rows) {
    const auto n = static_cast<int64_t>(rows.size());
    const Scratch<T> dh(n * width), dc(Cell::has_c ? n * H : 0), dz(n * gates);
    int64_t active = 0;
    for (int64_t s = q.length(rows[0]) - 1; s >= 0; --s) {
      for (; active < n && q.length(rows[static_cast<size_t>(active)]) > s; ++active) {
        const int64_t b = rows[static_cast<size_t>(active)];
        std::copy_n(row_or(a.dh_last, b, H, none), H, dh.data() + active * width);
        if (Cell::has_c) std::copy_n(row_or(a.dc_last, b, H, none), H, dc.data() + active * H);
      }
      for (int64_t i = 0; i < active; ++i) {
        const int64_t b = rows[static_cast<size_t>(i)], at = q.at(b, s);
        const int64_t before = s > 0 ? q.at(b, s - 1) : b;
        const T* h_before = row_or(s > 0 ? a.y : a.h0, before, H, none);
        T *dzi = dz.data() + i * gates, *dx = a.dx + at * gates;
        Cell::backward(CellBackward<T>{.H = H,
                                       .kept = a.kept + at * Cell::kept * H,
                                       .h_before = h_before,
                                       .c_before = row_or(s > 0 ? a.c : a.c0, before, H, none),
                                       .h = a.y + at * H,
                                       .c = row_or(a.c, at, H, none),
                                       .dy = row_or(a.dy, at, H, none),
                                       .dh = dh.data() + i * width,
                                       .dc = dc.data() + i * H,
                                       .dz = dzi,
                                       .dx_n = dx + gates - H});
        std::copy_n(dzi, a.dz_n ? gates - H : gates, dx);
        if (a.dz_n) std::copy_n(dzi + gates - H, H, a.dz_n + at * H);
        if (a.h_before) std::copy_n(h_before, H, a.h_before + at * H);
      }
      if (s > 0 || a.dh0) weight.multiply(active, dz.data(), gates, Cell::direct, dh.data(), width);
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t b = rows[static_cast<size_t>(i)];
      if (a.dh0) std::copy_n(dh.data() + i * width, H, a.dh0 + b * H);
      if (a.dc0) std::copy_n(dc.data() + i * H, H, a.dc0 + b * H);
      q.clear_padding(b, gates, a.dx);
      if (a.dz_n) q.clear_padding(b, H, a.dz_n);
      if (a.h_before) q.clear_padding(b, H, a.h_before);
    }
  });
}

}  // namespace gradus::kernel
