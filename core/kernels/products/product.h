#pragma once
// choose_product chooses the kernel for a matrix product. blas::gemm and blas::gemm_serial call it
// for matrices in memory. attention_forward, conv1d and conv2d, PackedMatrix and products with
// compressed weights call it directly.
//
// kernel        file             use, and gain over the baseline (another way to compute the same)
//
// zero          blas.cpp         k = 0: C becomes 0 or, if the product is added, stays unchanged.
//
// row_dots      row_dots.h       A few rows times a transposed matrix, or a matrix times one
//                                column: one dot product of contiguous rows per element of C. A row
//                                of C is bit-identical for any number of rows up to few_rows.
//                                Baseline: BLAS, whose gemv does not reach the memory's bandwidth.
//                                2 to 16 rows take 0.25 to 0.75 of panel's time. Also used by
//                                attention with few queries: one dot product per query and key.
//
// panel         panel_gemm.h     float32 matrices with 512-bit vectors. Baseline: BLAS, which
//                                packs both operands and clears C; this kernel packs B, and packs A
//                                only on Intel's processors. It is 10 to 25% faster at the shapes
//                                of a small GPT (4 layers of 128) and 4 to 13% at GPT-2's: training
//                                steps take 0.94 and 0.92 of the time. With 256-bit vectors it is
//                                as fast as OpenBLAS for one product, but training steps are 1 to
//                                5% slower. With 256-bit vectors it is therefore used only for a
//                                narrow C, for which BLAS's packing of A does not pay off: the
//                                optimiser Muon takes 0.75 of the time.
//
// bfloat16_panel bfloat16_pairs.h  panel with operands rounded to bfloat16, used in the mode
//                                Bfloat16Products if the build has bfloat16_products: 0.49 to
//                                0.63 of panel's time. packed_panel, tile and window round their
//                                operands in this mode too: attention takes 0.63 to 0.87 of the
//                                time, a 3 x 3 convolution 0.56. If the processor has AMX, all
//                                four multiply in its tile registers, see amx.h.
//
// packed_panel  packed_matrix.h  One matrix B times many A, for example a recurrent weight.
//                                Baseline: a matmul per step, which packs the weight each time. Two
//                                LSTM layers train in 0.51 of PyTorch's time.
//
// tile          tile_gemm.h      Small matrices that are already in the caches: the tiles of
//                                attention. Baseline: two matmuls around a softmax. At
//                                these sizes BLAS spends its time on preparations, and the scores
//                                would be written to memory. Attention over 1024 tokens takes 0.23
//                                of PyTorch's time and 0.07 of its memory.
//
// window        convolution.h    A's rows are windows of an image. Baseline: unfold the image
//                                into a matrix (im2col), then one matmul. This kernel reads the
//                                padded image: a 3 x 3 convolution takes 0.93 of oneDNN's time.
//                                Patches as in a ViT (`disjoint` below) are copied into a matrix
//                                instead, which takes 0.5 to 0.75 of this kernel's time.
//
// compressed_dots compressed.h   A few rows times a weight in bfloat16 or int8, read as stored.
//                                Baseline, used for more rows: convert the weight to float32 by
//                                blocks of rows, then multiply.
//
// blas          blas.h           All other matrices.

#include <type_traits>

#include "gradus/core/kernels/products/tile_gemm.h"
#include "gradus/core/tensor/dtype.h"

namespace gradus::kernel {

enum class ProductKernel {
  zero,
  row_dots,
  panel,
  bfloat16_panel,
  packed_panel,
  tile,
  window,
  compressed_dots,
  blas
};

/// How the operands of a product are stored.
enum class ProductOperands {
  matrices,    ///< A and B are matrices in memory
  packed,      ///< B is packed once, for many products
  tiles,       ///< A, B and C are blocks in the processor's caches
  windows,     ///< A's rows are windows of an image
  compressed,  ///< B is a weight in bfloat16 or int8, transposed
};

/// The maximum number of rows of A for which a product with a transposed B is computed as dot
/// products (row_dots). If operands are rounded to bfloat16, the maximum is 1. If C is a single
/// column, there is no maximum. A row of C is bit-identical for any number of rows up to the
/// maximum, so that a model generates the same text for a prompt in a batch as for the prompt
/// alone.
inline constexpr int64_t few_rows = 64;

/// The shape of a product C = op(A) op(B), or C += op(A) op(B), with op(A) (m, k), op(B) (k, n) and
/// C (m, n).
struct ProductShape {
  ProductOperands operands = ProductOperands::matrices;
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  int64_t lda = 0, ldb = 0;  ///< row strides of A and B as stored, before op
  bool recomputed = false;   ///< for `tiles` only: whether backward must recompute C bit for bit
  bool rounded = false;      ///< for `matrices` only: whether to round float32 operands to bfloat16
  bool disjoint = false;     ///< for `windows` only: whether there is one group and the windows
                             ///< cover the image without overlap, each 2 x 2 pixels or larger

  /// Returns whether C can be computed as dot products of the rows of op(A) with the rows of B as
  /// stored. This requires contiguous rows, and at most few_rows rows of op(A).
  constexpr bool dots_with_b() const {
    return trans_b && (trans_a ? m == 1 && lda == 1 : m <= few_rows);
  }
  /// Returns whether C is a single column that can be computed as dot products of the rows of A
  /// with op(B), which is also a column. This requires that the rows and the column are contiguous.
  constexpr bool dots_with_a() const { return n == 1 && !trans_a && (trans_b || ldb == 1); }
};

/// Attention without a backward pass uses row_dots instead of tiles if it has fewer queries than
/// few_queries. A tile puts one query in each lane of a vector, so most lanes would be empty.
inline constexpr int64_t few_queries = 4;

/// With 256-bit vectors, float32 products use the panel kernel only if C has at most this many
/// columns.
inline constexpr int64_t narrow_cols = 32;

/// The maximum number of rows of A for which a B in bfloat16 or int8 is multiplied as stored. For
/// more rows, B is converted to float32.
inline constexpr int64_t few_compressed_rows = 12;

/// Whether this build can multiply in bfloat16.
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
inline constexpr bool bfloat16_products = true;
#else
inline constexpr bool bfloat16_products = false;
#endif

/// Whether this build can round operands of type T to bfloat16.
template <class T>
inline constexpr bool can_round = (bfloat16_products && std::is_same_v<T, float>);

/// Returns the kernel for a product of elements of `dtype` (float32 or float64) on a processor with
/// vectors of `vector_bytes` bytes. The choice depends only on these arguments and on
/// bfloat16_products, not on the number of threads.
constexpr ProductKernel choose_product(const ProductShape& p, Dtype dtype,
                                       int64_t vector_bytes = kernel::vector_bytes) {
  switch (p.operands) {
    case ProductOperands::packed:
      return ProductKernel::packed_panel;
    case ProductOperands::tiles:
      // Dot products round differently from tiles. If backward recomputes the product, it uses
      // tiles, so the forward pass must use tiles too.
      return p.m < few_queries && p.k > 0 && !p.recomputed ? ProductKernel::row_dots
                                                           : ProductKernel::tile;
    case ProductOperands::windows:
      if (!p.disjoint) return ProductKernel::window;
      break;  // the windows are copied into a matrix
    case ProductOperands::compressed:
      if (p.m <= few_compressed_rows) return ProductKernel::compressed_dots;
      break;  // blocks of B are converted to float32 matrices
    case ProductOperands::matrices:
      break;
  }
  if (p.k == 0) return ProductKernel::zero;
  const bool rounded = dtype == float32 && p.rounded && bfloat16_products;
  if (p.dots_with_a() || (p.dots_with_b() && (p.m == 1 || !rounded)))
    return ProductKernel::row_dots;
  if (rounded) return ProductKernel::bfloat16_panel;
  const bool narrow = vector_bytes == 32 && p.n <= narrow_cols;
  if (dtype == float32 && (vector_bytes == 64 || narrow)) return ProductKernel::panel;
  return ProductKernel::blas;
}

}  // namespace gradus::kernel
