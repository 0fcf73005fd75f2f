#pragma once
// Products whose result is a symmetric matrix, on one thread. Only the lower triangle is computed,
// which halves the work, and then copied to the upper triangle.

#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/panel_gemm.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// Writes the transpose of `from` (rows, cols) to `to` (cols, rows). The strides are row strides.
template <class T>
void transpose(int64_t rows, int64_t cols, const T* from, int64_t from_stride, T* to,
               int64_t to_stride) {
  constexpr int64_t n = lanes<T>;
  const int64_t whole_rows = rows / n * n, whole_cols = cols / n * n;
  for (int64_t i = 0; i < whole_rows; i += n)
    for (int64_t j = 0; j < whole_cols; j += n)
      detail::transpose_square(n, T{1}, from + i * from_stride + j, from_stride,
                               to + j * to_stride + i, to_stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
}

/// Writes factor * x to `out`. Both have `rows` rows of `cols` elements, with row stride `stride`.
template <class T>
void scale_rows(T factor, int64_t rows, int64_t cols, const T* x, int64_t stride, T* out) {
  for (int64_t i = 0; i < rows; ++i, x += stride, out += stride)
    simd_for(cols, [=](int64_t j) { out[j] = factor * x[j]; });
}

/// Computes columns [begin, end) of C = factor A + op(A) op(B), on and below the diagonal, and
/// copies the transpose of these columns to rows [begin, end), right of the diagonal. C (g.n, g.n)
/// must be symmetric. `begin` and `end` must be multiples of panel_cols, except that `end` may be
/// g.n. C is bit-identical whether one call or several calls compute its columns. If the factor is
/// not 0, A must be square and not transposed. Ignores g.m, g.add and g.lower.
template <class T>
void symmetric_product(T factor, const Product<T>& g, int64_t begin, int64_t end) {
  constexpr int64_t width = panel_cols<T>;
  const auto at = [&](T* c, int64_t i, int64_t j) { return c + i * g.ldc + j; };
  for (int64_t j = begin; factor != T{0} && j < end; j += width)
    scale_rows(factor, g.n - j, std::min(width, end - j), g.a_at(j, j), g.lda, at(g.c, j, j));
  Product<T> part = g;
  part.lower = true, part.add = factor != T{0};
  part.m = g.n - begin, part.n = end - begin;
  part.a = g.a_at(begin, 0), part.b = g.b_at(0, begin), part.c = at(g.c, begin, begin);
  blas::gemm_serial<T>(part);
  for (int64_t j = begin; j < end; j += width) {
    const int64_t after = std::min(j + width, end);
    transpose(g.n - after, after - j, at(g.c, after, j), g.ldc, at(g.c, j, after), g.ldc);
  }
}

}  // namespace gradus::kernel
