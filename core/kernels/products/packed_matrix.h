#pragma once
// Products of many matrices A with one matrix B, which is packed once
// (ProductKernel::packed_panel).
//
// The same from basic ops: one matmul C = A B per A, which reads or packs B each time. A recurrent
// layer multiplies by its weight at every step: packed once, the weight stays in the caches of the
// threads that read it. Training two LSTM layers of 256 units takes 0.51 of PyTorch's time.

#include "gradus/core/kernels/products/panel_gemm.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// A matrix B (k, n) packed into contiguous panels of columns.
template <class T>
class PackedMatrix {
 public:
  /// Packs a matrix stored as (k, n) or, if `transposed`, as (n, k).
  PackedMatrix(const T* matrix, bool transposed, int64_t k, int64_t n)
      : k_(k), n_(n), panels_(whole_panels(n) * k) {
    const Product<T> g{
        .trans_b = transposed, .n = n, .k = k, .b = matrix, .ldb = transposed ? k : n};
    parallel_for(n, 4 * width, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; j += width)
        detail::pack_panel(g, 0, k, j, std::min(width, n - j), panels_.data() + j * k);
    });
  }
  /// n rounded up to whole panels, the number of columns of C that multiply writes.
  static int64_t whole_panels(int64_t n) { return ceil_div(n, width) * width; }
  /// C (m, n) = A B, or C += A B if `add`. A (m, k) is contiguous; the rows of C, `ldc` apart, have
  /// room for whole_panels(n) elements.
  void multiply(int64_t m, const T* a, bool add, T* c, int64_t ldc) const {
    const int64_t steps = ceil_div(k_, detail::k_step), step = (k_ - 1) / steps + 1;
    for (int64_t j = 0; j < n_; j += width)
      for (int64_t p = 0; p < k_; p += step)
        detail::panel_block<T, 2>(false, add || p > 0, m, std::min(step, k_ - p), a + p, k_,
                                  panels_.data() + j * k_ + p * width, c + j, ldc);
  }

 private:
  static_assert(choose_product({.operands = ProductOperands::packed}, dtype_of<T>) ==
                ProductKernel::packed_panel);
  static constexpr int64_t width = panel_cols<T>;
  int64_t k_, n_;
  Scratch<T> panels_;
};

}  // namespace gradus::kernel
