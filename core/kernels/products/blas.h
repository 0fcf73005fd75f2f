#pragma once
// Matrix multiplication by BLAS, or by our own kernels where they are faster (choose_product in
// product.h decides). All calls to BLAS go through this header. Every kernel runs on one thread;
// gemm splits a product's rows or columns over the threads.

#include <cstdint>
#include <functional>
#include <string>

namespace gradus::blas {

/// A product C = op(A) op(B), or C += op(A) op(B) if `add`. op(A) is A or, if `trans_a`, its
/// transpose; op(B) is B or, if `trans_b`, its transpose. The shapes are C (m, n), op(A) (m, k) and
/// op(B) (k, n). A, B and C are row-major, and lda, ldb and ldc are their row strides as stored,
/// before op. T is float or double.
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
  /// Whether to compute only the lower triangle of C, in blocks of panel_cols columns. In a block
  /// that begins with column j, rows 0 to j - 1 are skipped, and their values are then undefined.
  /// Only gemm_serial supports this, and only for m >= n.
  bool lower = false;

  /// Returns the address of row i, column p of op(A).
  const T* a_at(int64_t i, int64_t p) const { return trans_a ? a + p * lda + i : a + i * lda + p; }
  /// Returns the address of row p, column j of op(B).
  const T* b_at(int64_t p, int64_t j) const { return trans_b ? b + j * ldb + p : b + p * ldb + j; }
};

/// A part of C: rows [row, row + rows) and columns [col, col + cols).
struct Tile {
  int64_t row = 0, rows = 0, col = 0, cols = 0;
};

/// A function that gemm calls once for each tile of C, on the thread that computed the tile. At
/// that time the tile is final and still in a cache.
using TileDone = std::function<void(const Tile&)>;

/// Computes p, split over the threads by rows or by columns. The result is bit-identical for one
/// and two threads and, unless BLAS computes p, for any number of threads. C is read only if p.add
/// is set. If C is empty, `done` is not called. Adds the FLOPs to the open ProfileScope, if any.
///
/// Throws Error if
/// - a size is negative, or a size or row stride is 2^31 or more,
/// - a matrix has several rows and its row stride is shorter than a row,
/// - p.lower is set, or
/// - there is no memory for BLAS.
template <class T>
void gemm(Product<T> p, const TileDone& done = {});

/// Computes p on the calling thread, without counting FLOPs. Meant for use inside parallel_for.
/// Throws the same errors as gemm, except that p.lower (compute only the lower triangle of C) is
/// allowed if p.m >= p.n.
template <class T>
void gemm_serial(Product<T> p);

/// Returns a description of how this build multiplies matrices, for build_info(). It names the
/// version of OpenBLAS, its kernels and why they were chosen; with another BLAS it says "CBLAS, not
/// OpenBLAS". It also tells whether our own kernel computes float32 products, whether there are
/// bfloat16 products, and whether AMX computes them. For example: "OpenBLAS 0.3.21 (pthread),
/// kernels SkylakeX: OpenBLAS's own choice; float32 products by a kernel of our own; bfloat16
/// products by AMX".
std::string describe();

}  // namespace gradus::blas
