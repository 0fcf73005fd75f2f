#pragma once
// Products of many matrices A with one matrix B that is packed once (ProductKernel::packed_panel).
//
// The baseline is one matmul C = A B per A, which reads or packs B each time. A recurrent layer
// multiplies by its weight at every step. If the weight is packed once, it stays in the caches of
// the threads that read it. Training two LSTM layers of 256 units takes 0.51 of PyTorch's time.

#include "gradus/core/kernels/products/bfloat16_pairs.h"
#include "gradus/core/kernels/products/panel_gemm.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/modes.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// A matrix B (k, n), with k > 0, packed into contiguous panels of columns, for products A B with
/// many matrices A. If the mode Bfloat16Products is on when the constructor runs, float32 matrices
/// A and B are rounded to bfloat16 (never in a build without AVX512-BF16).
template <class T>
class PackedMatrix {
 public:
  /// Packs a matrix stored as (k, n) or, if `transposed`, as (n, k).
  PackedMatrix(const T* matrix, bool transposed, int64_t k, int64_t n)
      : k_(k),
        n_(n),
        panels_(rounded_ ? 0 : whole_panels(n) * k),
        pairs_(rounded_ ? whole_panels(n) * pair_rows() : 0) {
    const Product<T> g{
        .trans_b = transposed, .n = n, .k = k, .b = matrix, .ldb = transposed ? k : n};
    parallel_for(n, 4 * width, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; j += width) {
        const int64_t cols = std::min(width, n - j);
        if constexpr (can_round<T>)
          if (rounded_) {
            detail::pack_pairs(g, 0, k, j, cols, pairs_.data() + j * pair_rows());
            continue;
          }
        detail::pack_panel(g, 0, k, j, cols, panels_.data() + j * k);
      }
    });
  }
  /// Returns n rounded up to whole panels: the number of columns of C that multiply writes.
  static int64_t whole_panels(int64_t n) { return ceil_div(n, width) * width; }
  /// Computes C (m, n) = A B, or C += A B if `add`. A (m, k) is contiguous. C has row stride `ldc`,
  /// and each row must have space for whole_panels(n) elements.
  void multiply(int64_t m, const T* a, bool add, T* c, int64_t ldc) const {
    if constexpr (can_round<T>)
      if (rounded_) {
        const Product<T> g{.m = m, .k = k_, .a = a, .lda = k_};
        const Scratch<Pair> rows(m * pair_rows());
        detail::round_rows(g, 0, m, 0, k_, pair_rows(), rows.data());
        return multiply_panels<Pair>(m, elements_of<Pair>(k_), rows.data(), pair_rows(),
                                     pairs_.data(), add, c, ldc);
      }
    multiply_panels<T>(m, k_, a, k_, panels_.data(), add, c, ldc);
  }

 private:
  static_assert(choose_product({.operands = ProductOperands::packed}, dtype_of<T>) ==
                ProductKernel::packed_panel);
  static constexpr int64_t width = panel_cols<T>;

  // Returns the number of rows per panel of pairs, a multiple of 16 as pack_pairs requires.
  int64_t pair_rows() const { return ceil_div(k_, int64_t{32}) * 16; }

  // Multiplies A by the panels. `k` is the number of elements along the axis that is summed over.
  // Long parameter list: A and C are each passed as a pointer and a row stride.
  template <class Element>
  void multiply_panels(int64_t m, int64_t k, const Element* a, int64_t lda, const Element* panels,
                       bool add, T* c, int64_t ldc) const {
    const int64_t rows = is_pair<Element> ? pair_rows() : k;
    if constexpr (is_pair<Element>)
      if (has_amx()) {
        TileRegisters tiles;
        for (int64_t j = 0; j < n_; j += width)
          tiles.multiply(add, m, width, k, a, lda, panels + j * rows, width, c + j, ldc);
        return;
      }
    const int64_t steps = ceil_div(k, detail::k_step), step = (k - 1) / steps + 1;
    for (int64_t j = 0; j < n_; j += width)
      for (int64_t p = 0; p < k; p += step)
        detail::panel_block<Element, 2>(false, add || p > 0, m, std::min(step, k - p), a + p, lda,
                                        panels + j * rows + p * width, c + j, ldc);
  }

  bool rounded_ = can_round<T> && core::modes().bfloat16;
  int64_t k_, n_;
  Scratch<T> panels_;
  Scratch<Pair> pairs_;  // for a rounded matrix
};

}  // namespace gradus::kernel
