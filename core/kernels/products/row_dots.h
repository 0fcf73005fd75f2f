#pragma once
// Multiplies a few rows by a transposed matrix, C = X W^T: one dot product of contiguous rows per
// element of C (ProductKernel::row_dots).
//
// The baseline is BLAS's gemm. Instead of packing W, each thread reads a few rows of W as streams
// of memory and multiplies them with all rows of X. With one row of X, this kernel takes no longer
// than reading W from memory; BLAS's gemv takes longer. With 2 to 16 rows it takes 0.25 to 0.75 of
// the panel kernel's time, with 64 rows 0.95 to 1.05 (1.7 if rows have only 128 elements).
//
// A row of C is bit-identical for any number of rows of X up to few_rows (see product.h). Unless
// operands are rounded to bfloat16, a model therefore computes the same logits for a text in a
// batch of up to few_rows texts as for the text alone.

#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// The products y(i, j) = dot(row i of x, row j of w), which are added to y if `add`. x (m, k) and
/// w (n, k) are row-major with row strides ldx and ldw, and k > 0. Element (i, j) of y is
/// y[i * row_stride + j * col_stride].
template <class T>
struct RowDots {
  int64_t m, n, k;
  const T* x;
  int64_t ldx;
  const T* w;
  int64_t ldw;
  bool add;
  T* y;
  int64_t row_stride, col_stride;

  /// Columns of y that are summed in registers at a time.
  static constexpr int64_t block_cols = lanes<T> / 2;

  /// Returns the number of columns of y that one thread computes at a time, a multiple of
  /// block_cols.
  int64_t grain() const {
    const int64_t cols = 262144 / (std::max<int64_t>(m, 4) * k);
    return std::max<int64_t>(1, cols / block_cols) * block_cols;
  }

  /// Computes columns [begin, end) of y.
  void run(int64_t begin, int64_t end) const {
    const int64_t whole = k / lanes<T> * lanes<T>;
    // The terms are summed in blocks for two reasons: a block of rows of w stays in L1 for all rows
    // of x, and long sums in float32 lose precision.
    for (int64_t p = 0; p < whole; p += most_terms) {
      const int64_t terms = std::min(most_terms, whole - p);
      int64_t j = begin;
      for (; j + block_cols <= end; j += block_cols) sum_columns<block_cols>(j, p, terms);
      for (; j < end; ++j) sum_columns<1>(j, p, terms);
    }
    if (whole < k) add_last_terms(begin, end, whole);
  }

 private:
  using Vector = typename detail::Register<T>::type;
  using Memory = typename detail::Register<T>::memory;
  static constexpr int64_t block_rows = vector_bytes == 64 ? 3 : 2, most_terms = 768;

  // Adds terms [whole, k) of the dot products to columns [begin, end) of y or, if `whole` is 0 and
  // `add` is false, overwrites the columns. These terms do not fill a vector, so they are copied
  // and padded with zeros.
  void add_last_terms(int64_t begin, int64_t end, int64_t whole) const {
    const int64_t rows = end - begin;
    const Scratch<T> last((m + rows) * lanes<T>);
    auto pad = [&](const T* from, int64_t stride, int64_t count, T* to) {
      for (int64_t r = 0; r < count; ++r, from += stride, to += lanes<T>)
        std::fill(std::copy_n(from, k - whole, to), to + lanes<T>, T{0});
    };
    T *last_x = last.data(), *last_w = last_x + m * lanes<T>;
    pad(x + whole, ldx, m, last_x);
    pad(w + begin * ldw + whole, ldw, rows, last_w);
    RowDots rest = *this;
    rest.n = rows, rest.k = rest.ldx = rest.ldw = lanes<T>;
    rest.x = last_x, rest.w = last_w;
    rest.add = add || whole > 0;
    rest.y = y + begin * col_stride;
    rest.run(0, rows);
  }

  // Adds terms [p, p + terms) to `Cols` columns of y, from column j on. If p is 0 and `add` is
  // false, overwrites the columns.
  template <int64_t Cols>
  void sum_columns(int64_t j, int64_t p, int64_t terms) const {
    int64_t i = 0;
    for (; i + block_rows <= m; i += block_rows) sum_block<block_rows, Cols>(i, j, p, terms);
    if (i + 2 <= m) {
      sum_block<2, Cols>(i, j, p, terms);
      i += 2;
    }
    if (i < m) sum_block<1, Cols>(i, j, p, terms);
  }

  template <int64_t Rows, int64_t Cols>
  void sum_block(int64_t i, int64_t j, int64_t p, int64_t terms) const {
    const T *a = x + i * ldx + p, *b = w + j * ldw + p;
    Vector sums[Rows * Cols] = {};
    for (int64_t q = 0; q < terms; q += lanes<T>) {
      Vector left[Rows];
      detail::unroll<Rows>(
          [&](auto r) { left[r] = *reinterpret_cast<const Memory*>(a + r * ldx + q); });
      detail::unroll<Cols>([&](auto c) {
        // volatile: g++ would otherwise read the vector again for each product.
        const Vector right = *reinterpret_cast<const volatile Memory*>(b + c * ldw + q);
        detail::unroll<Rows>([&](auto r) { sums[r * Cols + c] += left[r] * right; });
      });
    }
    for (int64_t r = 0; r < Rows; ++r)
      store<Cols>(sums + r * Cols, add || p > 0, y + (i + r) * row_stride + j * col_stride);
  }

  // Sums the lanes of each of `Cols` vectors and writes the totals to columns of y, from `to` on.
  // If `add_to`, adds them to y instead.
  template <int64_t Cols>
  void store(Vector* sums, bool add_to, T* to) const {
    T totals[lanes<T>];
    detail::sums_of_lanes<Cols>(sums, totals);
    if (add_to)
      for (int64_t c = 0; c < Cols; ++c) to[c * col_stride] += totals[c];
    else
      for (int64_t c = 0; c < Cols; ++c) to[c * col_stride] = totals[c];
  }
};

/// Returns the RowDots object that computes the product p of shape `shape`. choose_product must
/// choose ProductKernel::row_dots for this shape.
template <class T>
RowDots<T> row_dots(const ProductShape& shape, const blas::Product<T>& p) {
  if (shape.dots_with_b()) return {p.m, p.n, p.k, p.a, p.lda, p.b, p.ldb, p.add, p.c, p.ldc, 1};
  return {1, p.m, p.k, p.b, 0, p.a, p.lda, p.add, p.c, 0, p.ldc};
}

}  // namespace gradus::kernel
