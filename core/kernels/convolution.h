#pragma once
// Matrix products A B in which row r of A is window r of an image (ProductKernel::window). A is
// never stored: its element (r, p) is read from the zero-padded image at rows[r] + places[p]. Here
// rows[r] is where window r starts, and places[p] is an offset within a window. A convolution and
// the gradient of its image consist of such products, for any stride, dilation and padding. The
// gradient of the filters consists of products with the transpose of A.
//
// The composed form, written with basic ops, is composed_conv2d in core/ops/convolution.cpp: one
// matmul per filter tap (position in a filter). Other libraries often unfold the image (im2col) and
// call BLAS; these kernels read the padded image directly. Forward and backward of a 3 x 3
// convolution from 64 to 64 channels over a batch of 32 images of 32 x 32 pixels take 0.93 of
// oneDNN's time. With operands rounded to bfloat16 they take 0.56 of float32's time.
// Long parameter lists: they follow BLAS's gemm, see tile_gemm.h.

#include "gradus/core/kernels/products/bfloat16_pairs.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// One axis of an image plane: its size, and the number of zeros to pad before and after it.
struct PaddedAxis {
  int64_t size = 1, before = 0, after = 0;
  int64_t padded() const { return before + size + after; }
};

/// The sizes and padding of the planes of an image. A plane holds one channel.
struct Planes {
  PaddedAxis y, x;
  int64_t plane() const { return y.size * x.size; }
  int64_t padded_plane() const { return y.padded() * x.padded(); }
};

/// Copies `channels` planes from `from` to `to` and pads each with zeros. Writes channels *
/// padded_plane() elements.
template <class T>
void pad_planes(const Planes& p, int64_t channels, const T* from, T* to) {
  const int64_t width = p.x.padded(), before = p.x.before, size = p.x.size;
  for (int64_t c = 0; c < channels; ++c, from += p.plane()) {
    to = std::fill_n(to, p.y.before * width, T{0});
    for (int64_t y = 0; y < p.y.size; ++y, to += width) {
      for (int64_t x = 0; x < before; ++x) to[x] = 0;
      simd_for(size, [=, row = from + y * size](int64_t x) { to[before + x] = row[x]; });
      for (int64_t x = before + size; x < width; ++x) to[x] = 0;
    }
    to = std::fill_n(to, p.y.after * width, T{0});
  }
}

/// Copies `channels` planes from `from` to `to` and pads each with zeros. If E is a Pair, each
/// plane of `to` holds two neighbouring channels (an odd last channel is paired with zeros), and up
/// to one vector of memory after the last plane of `to` is overwritten too.
template <class E>
void pad_channels(const Planes& p, int64_t channels, const detail::Sum<E>* from, E* to) {
  if constexpr (!is_pair<E>) {
    pad_planes(p, channels, from, to);
  } else {
    const int64_t width = p.x.padded();
    for (int64_t c = 0; c < channels; c += 2, from += 2 * p.plane()) {
      to = std::fill_n(to, p.y.before * width, E{0});
      for (int64_t y = 0; y < p.y.size; ++y) {
        to = std::fill_n(to, p.x.before, E{0});
        // round_down writes whole vectors. What it writes past the end of this row is overwritten
        // by the padding and the rows that follow.
        detail::round_down(1, from + y * p.x.size, p.plane(), std::min<int64_t>(2, channels - c),
                           p.x.size, to);
        to = std::fill_n(to + p.x.size, p.x.after, E{0});
      }
      to = std::fill_n(to, p.y.after * width, E{0});
    }
  }
}

namespace detail {

// Computes a block of R rows by N vectors of C = A B, or of C += A B if Add. Like gemm_block in
// tile_gemm.h, except that element (r, p) of A is a[rows[r] + places[p]].
template <class E, bool Add, int64_t R, int64_t N>
inline void window_block(int64_t k, const E* a, const int64_t* rows, const int64_t* places,
                         const E* panel, Sum<E>* c, int64_t ldc) {
  using Vector = typename Register<Sum<E>>::type;
  using Memory = typename Register<Sum<E>>::memory;
  auto at = [=](auto i) { return reinterpret_cast<Memory*>(c + i / N * ldc + i % N * lanes<E>); };
  const E* row[R];
  unroll<R>([&](auto r) { row[r] = a + rows[r]; });
  Vector sum[R * N];
  unroll<R * N>([&](auto i) { sum[i] = Vector{}; });
  for (int64_t p = 0; p < k; ++p, panel += panel_cols<E>) {
    const int64_t place = places[p];
    typename Register<E>::type b[N];
    unroll<N>([&](auto v) {
      b[v] = *reinterpret_cast<const typename Register<E>::memory*>(panel + v * lanes<E>);
    });
    unroll<R>([&](auto r) {
      const E x = row[r][place];
      unroll<N>([&](auto v) { MultiplyAdd<E>::apply(sum[r * N + v], x, b[v]); });
    });
  }
  unroll<R * N>([&](auto i) { *at(i) = Add ? *at(i) + sum[i] : sum[i]; });
}

template <class E, bool Add, int64_t N, int64_t R>
inline void window_rows(int64_t m, int64_t k, const E* a, const int64_t* rows,
                        const int64_t* places, const E* panel, Sum<E>* c, int64_t ldc) {
  int64_t i = 0;
  for (; i + R <= m; i += R)
    window_block<E, Add, R, N>(k, a, rows + i, places, panel, c + i * ldc, ldc);
  if constexpr (R > 1)
    if (i < m)
      window_rows<E, Add, N, R / 2>(m - i, k, a, rows + i, places, panel, c + i * ldc, ldc);
}

// Computes window_gemm in the processor's tile registers (see amx.h): gathers blocks of A and
// multiplies each by the panel. Requires has_amx().
inline void amx_window_gemm(bool add, int64_t m, int64_t cols, int64_t k, const Pair* a,
                            const int64_t* rows, const int64_t* places, const Pair* panel, float* c,
                            int64_t ldc) {
  const auto gather = [=](int64_t i, int64_t r, int64_t p, int64_t depth, Pair* block,
                          int64_t stride) {
    for (int64_t q = 0; q < depth; q += lanes<int64_t>)
      gather_columns(r, std::min(lanes<int64_t>, depth - q), a, rows + i, places + p + q, block + q,
                     stride);
  };
  TileRegisters().multiply_blocks(add, m, padded<float>(cols), k, gather, panel, panel_cols<Pair>,
                                  c, ldc);
}

}  // namespace detail

/// Computes C (m, cols) = A B, or C += A B if `add`. Element (r, p) of A is a[rows[r] + places[p]].
/// B is the first `cols` columns of `panel`, which has k rows of panel_cols<E> columns. Writes
/// whole vectors of C: each row needs space for `cols` rounded up to whole vectors. If E is Pair,
/// an element of A or B holds two neighbours along the summed axis, and k counts Pairs.
template <class E>
void window_gemm(bool add, int64_t m, int64_t cols, int64_t k, const E* a, const int64_t* rows,
                 const int64_t* places, const E* panel, detail::Sum<E>* c, int64_t ldc) {
  using namespace detail;
  if constexpr (is_pair<E>)
    if (has_amx() && k > 0) return amx_window_gemm(add, m, cols, k, a, rows, places, panel, c, ldc);
  if (cols <= lanes<E> && add)
    window_rows<E, true, 1, gemm_rows>(m, k, a, rows, places, panel, c, ldc);
  else if (cols <= lanes<E>)
    window_rows<E, false, 1, gemm_rows>(m, k, a, rows, places, panel, c, ldc);
  else if (add)
    window_rows<E, true, 2, gemm_rows>(m, k, a, rows, places, panel, c, ldc);
  else
    window_rows<E, false, 2, gemm_rows>(m, k, a, rows, places, panel, c, ldc);
}

}  // namespace gradus::kernel
