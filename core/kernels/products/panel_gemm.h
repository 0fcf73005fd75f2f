#pragma once
// A matrix product of any size on one thread, made of tile_gemm.h's blocks of sums
// (ProductKernel::panel).
//
// The same by BLAS: C = op(A) op(B), its gemm. This kernel reads A in place; B is packed one panel
// of columns at a time, right before its use, while the next panel's cache lines are fetched. BLAS
// packs both operands whole and clears C in a pass of its own, a tenth of its time at the sizes of
// a transformer's layers. In float32 with 512-bit vectors this is 4 to 25% faster than OpenBLAS.
//
// long: parameters follow BLAS's gemm, see tile_gemm.h.

#include <algorithm>
#include <cstring>

#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/tile_gemm.h"

namespace gradus::kernel {

using blas::Tile, blas::Product;

/// Columns of a panel of B, the width of a block of sums.
template <class T>
inline constexpr int64_t panel_cols = 2 * lanes<T>;

namespace detail {

// The most rows of B and columns of C in one step: a panel of k_step rows takes at most 32 KB of
// L1, and col_step columns of C, summed over several steps of k, stay in a cache.
inline constexpr int64_t k_step = 256, col_step = 1024;
// Bytes of A in one step of rows, half of an L2 cache of 1 MB. Each panel of B is packed once per
// step of rows.
inline constexpr int64_t near_bytes = 512 << 10;
// The size of B in bytes above which prefetching pays off.
inline constexpr int64_t far_bytes = near_bytes / 2;
// The most rows in a tile that panel_gemm passes to `done`.
inline constexpr int64_t strip_rows = 64 / gemm_rows * gemm_rows;

// Cache lines of a panel of k_step rows.
template <class T>
inline constexpr int64_t panel_lines = k_step* panel_cols<T>* static_cast<int64_t>(sizeof(T)) / 64;

// Packs op(B)'s rows [p, p + k) and columns [j, j + cols) into rows of panel_cols, padded with
// zeros.
template <class T>
[[gnu::noinline]] void pack_panel(const Product<T>& g, int64_t p, int64_t k, int64_t j,
                                  int64_t cols, T* to) {
  constexpr int64_t width = panel_cols<T>;
  const T* from = g.b_at(p, j);
  if (!g.trans_b) {
    for (int64_t q = 0; q < k; ++q, from += g.ldb, to += width) {
      if (cols == width) {
        std::memcpy(to, from, sizeof(T) * width);
      } else {
        std::fill(std::copy_n(from, cols, to), to + width, T{0});
      }
    }
    return;
  }
  const int64_t whole = cols == width ? k / lanes<T> * lanes<T> : 0;
  for (int64_t q = 0; q < whole; q += lanes<T>)
    for (int64_t c = 0; c < width; c += lanes<T>)
      transpose_square(lanes<T>, T{1}, from + c * g.ldb + q, g.ldb, to + q * width + c, width);
  for (int64_t q = whole; q < k; ++q)
    for (int64_t c = 0; c < width; ++c) to[q * width + c] = c < cols ? from[c * g.ldb + q] : T{0};
}

// Prefetches the memory of a panel that pack_panel will read, some cache lines at a time.
template <class T>
struct Prefetch {
  const T* from;
  int64_t stride, rows, row_length;
  int64_t row = 0, at = 0;

  Prefetch(const Product<T>& g, int64_t p, int64_t j)
      : from(g.b_at(p, j)),
        stride(g.ldb),
        rows(std::min(k_step, g.k - p)),
        row_length(std::min(panel_cols<T>, g.n - j)) {
    if (g.trans_b) std::swap(rows, row_length);
  }

  void next(int64_t lines) {
    for (; lines > 0 && row < rows; --lines) {
      __builtin_prefetch(from + row * stride + at, 0, 2);
      at += 64 / static_cast<int64_t>(sizeof(T));
      if (at >= row_length) at = 0, ++row;
    }
  }
};

// Computes `rows` rows by N vectors of C from the first N vectors of each of a panel's rows.
template <class T, int64_t N>
[[gnu::noinline]] void panel_block(bool trans_a, bool add, int64_t rows, int64_t k, const T* a,
                                   int64_t lda, const T* panel, T* c, int64_t ldc) {
  constexpr int64_t width = panel_cols<T>;
  if (trans_a && add)
    gemm_rows_of<T, true, true, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
  else if (trans_a)
    gemm_rows_of<T, true, false, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
  else if (add)
    gemm_rows_of<T, false, true, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
  else
    gemm_rows_of<T, false, false, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
}

// As panel_block, for at most gemm_rows rows and a panel whose first `cols` columns belong to C.
template <class T>
void narrow_block(bool trans_a, bool add, int64_t rows, int64_t cols, int64_t k, const T* a,
                  int64_t lda, const T* panel, T* c, int64_t ldc) {
  constexpr int64_t width = panel_cols<T>;
  T block[gemm_rows * width];
  for (int64_t r = 0; add && r < rows; ++r)
    std::fill(std::copy_n(c + r * ldc, cols, block + r * width), block + (r + 1) * width, T{0});
  const auto multiply = cols <= lanes<T> ? panel_block<T, 1> : panel_block<T, 2>;
  multiply(trans_a, add, rows, k, a, lda, panel, block, width);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(block + r * width, cols, c + r * ldc);
}

}  // namespace detail

/// The size in elements of the buffer that panel_gemm packs into.
template <class T>
inline constexpr int64_t panel_size = panel_cols<T>* detail::k_step;

/// Computes g, whose sizes are positive; `panel` holds panel_size<T> elements, aligned to a vector.
/// Calls done(tile) for each tile of C when the tile is final and still in the nearest cache. An
/// element's bits do not depend on how C is split, as long as it is split at multiples of
/// panel_cols.
template <class T, class Done>
void panel_gemm(const Product<T>& g, T* panel, Done&& done) {
  using namespace detail;
  const int64_t steps = (g.k + k_step - 1) / k_step;
  const int64_t step = padded<T>((g.k + steps - 1) / steps);
  const int64_t row_step =
      near_bytes / static_cast<int64_t>(sizeof(T)) / step / gemm_rows * gemm_rows;
  const bool far = g.n * g.k * static_cast<int64_t>(sizeof(T)) > far_bytes;
  for (int64_t i0 = 0; i0 < g.m; i0 += row_step)
    for (int64_t j0 = 0; j0 < g.n; j0 += col_step)
      for (int64_t p = 0; p < g.k; p += step) {
        const int64_t i1 = std::min(i0 + row_step, g.m), j1 = std::min(j0 + col_step, g.n);
        const int64_t k = std::min(step, g.k - p);
        const bool add = g.add || p > 0, last = p + k == g.k;
        const int64_t blocks = (i1 - i0 + gemm_rows - 1) / gemm_rows;
        const int64_t lines = (panel_lines<T> + blocks - 1) / blocks;  // to prefetch per block
        for (int64_t j = j0; j < j1; j += panel_cols<T>) {
          const int64_t cols = std::min(panel_cols<T>, g.n - j);
          pack_panel(g, p, k, j, cols, panel);
          Prefetch<T> next = j + cols < j1 ? Prefetch<T>(g, p, j + cols)
                             : !last       ? Prefetch<T>(g, p + k, j0)
                                           : Prefetch<T>(g, 0, j1 < g.n ? j1 : 0);
          for (int64_t i = i0; i < i1; i += gemm_rows) {
            const int64_t rows = std::min(gemm_rows, i1 - i);
            if (far) next.next(lines);
            T* c = g.c + i * g.ldc + j;
            if (cols == panel_cols<T>)
              panel_block<T, 2>(g.trans_a, add, rows, k, g.a_at(i, p), g.lda, panel, c, g.ldc);
            else
              narrow_block(g.trans_a, add, rows, cols, k, g.a_at(i, p), g.lda, panel, c, g.ldc);
            const int64_t end = i + rows;
            if (last && (end == i1 || (end - i0) % strip_rows == 0)) {
              const int64_t begin = i0 + (end - 1 - i0) / strip_rows * strip_rows;
              done(Tile{begin, end - begin, j, cols});
            }
          }
        }
      }
}

}  // namespace gradus::kernel
