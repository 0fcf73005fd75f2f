#pragma once
// Matrix multiplication: the one door to BLAS, and beside it our own kernel where that is faster.
// Either runs on one thread; how a product is split over threads is decided here, by its shape.

#include <cstdint>
#include <functional>
#include <string>

namespace gradus::blas {

/// C = op(A) op(B), or C += op(A) op(B) with `add`: row-major, C is (m, n), op(A) is (m, k), op(B)
/// is (k, n); lda, ldb, ldc are the row strides of A, B, C as stored, before op. T is float or
/// double.
template <class T>
struct Product {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t lda = 0;
  const T* b = nullptr;
  int64_t ldb = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  bool add = false;

  /// Row i, column p of op(A).
  const T* a_at(int64_t i, int64_t p) const { return trans_a ? a + p * lda + i : a + i * lda + p; }
  /// Row p, column j of op(B).
  const T* b_at(int64_t p, int64_t j) const { return trans_b ? b + j * ldb + p : b + p * ldb + j; }
};

/// Part of C: rows [row, row + rows) and columns [col, col + cols).
struct Tile {
  int64_t row = 0, rows = 0, col = 0, cols = 0;
};

/// Is called with each tile of C once it is final and while it is near in a cache, on the thread
/// that computed it.
using TileDone = std::function<void(const Tile&)>;

/// Computes p, split over threads by rows or columns, as the shape wants; one and two threads give
/// the same bits, and with our own kernel any number of threads. Without `add` C is not read.
/// Throws Error for negative sizes, row strides shorter than a row, and sizes above 2^31 - 1.
/// Counts its FLOPs for an open ProfileScope.
template <class T>
void gemm(Product<T> p, const TileDone& done = {});

/// As gemm, on the calling thread alone, and uncounted: for use inside parallel_for.
template <class T>
void gemm_serial(Product<T> p);

/// "OpenBLAS 0.3.21 (pthread), kernels SkylakeX: why they were chosen", and whether float32
/// products are our own kernel's, for build_info().
std::string describe();

}  // namespace gradus::blas
