#pragma once
// A matrix times a vector: one dot product per row of the matrix (ProductKernel::row_dots).
//
// The simple form is BLAS's gemv: y = W x. Here each thread reads one row after the other, as one
// stream of memory. This reaches the memory's bandwidth, which gemv does not.

#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// The products y[r * incy] = dot(row r of w, x), or += if `add`, for a row-major matrix w (rows,
/// n) with row stride ldw. run computes them for rows [begin, end).
template <class T>
struct RowDots {
  const T* w;
  int64_t ldw, rows, n;
  const T* x;
  bool add;
  T* y;
  int64_t incy;

  void run(int64_t begin, int64_t end) const {
    for (int64_t r = begin; r < end; ++r)
      y[r * incy] = dot(w + r * ldw, x, n) + (add ? y[r * incy] : T{0});
  }

  static T dot(const T* u, const T* v, int64_t n) {
    constexpr int64_t block = 4096;  // a longer sum in one float would lose digits
    T sum{0};
    for (; n > 0; u += block, v += block, n -= block)
      sum += simd_sum<T>(std::min(block, n), [=](int64_t i) { return u[i] * v[i]; });
    return sum;
  }
};

/// Returns p as dot products. choose_product must have returned row_dots for `shape`.
template <class T>
RowDots<T> row_dots(const ProductShape& shape, const blas::Product<T>& p) {
  if (shape.dots_with_b()) return {p.b, p.ldb, p.n, p.k, p.a, p.add, p.c, 1};
  return {p.a, p.lda, p.m, p.k, p.b, p.add, p.c, p.ldc};
}

}  // namespace gradus::kernel
