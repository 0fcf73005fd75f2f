#pragma once
// Matrix multiplication: the one door to BLAS. BLAS itself always runs on one thread; how a product
// is split over threads is decided here, by its shape.

#include <cstdint>
#include <string>

namespace gradus::blas {

/// C = alpha op(A) op(B) + beta C, row-major. op(A) is (m, k), op(B) is (k, n), C is (m, n); lda,
/// ldb, ldc are row strides in elements of A, B, C as stored (before op). T is float or double.
/// beta 0 never reads C. Split over threads by rows or columns, as the shape wants; one and two
/// threads give the same bits. Throws Error for negative sizes, row strides shorter than a row, and
/// sizes above 2^31 - 1. Counts its FLOPs for an open ProfileScope.
template <class T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

/// As gemm, on the calling thread alone, and uncounted: for use inside parallel_for.
template <class T>
void gemm_serial(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                 int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

/// "OpenBLAS 0.3.21 (pthread), kernels SkylakeX: why they were chosen", for build_info().
std::string describe();

}  // namespace gradus::blas
