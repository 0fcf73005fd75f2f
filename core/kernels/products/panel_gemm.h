#pragma once
// Computes a matrix product of any size on one thread (ProductKernel::panel). C is computed in
// blocks that are summed in registers, see tile_gemm.h.
//
// The baseline is BLAS's gemm: C = op(A) op(B), where op(A) is A or its transpose. This kernel
// reads A in place, unless it rounds the operands to bfloat16 or packing A is faster (packs_rows).
// It packs B one panel of columns at a time, right before the panel is used or, if B is not
// transposed, while the first rows of A are multiplied by it. If B is large, the next panel is
// prefetched meanwhile. BLAS instead packs all of A and B, and clears C in a separate pass. At the
// sizes of a transformer's layers, packing and clearing take a tenth of BLAS's time. In float32
// with 512-bit vectors this kernel is 4 to 25% faster than OpenBLAS.
// Long parameter lists: they follow BLAS's gemm, see tile_gemm.h.

#include <algorithm>
#include <cstring>

#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/tile_gemm.h"
#include "gradus/core/runtime/allocator.h"

namespace gradus::kernel {

using blas::Tile, blas::Product;

/// Columns per panel of B: two vectors. A block of C that is summed in registers is as wide.
template <class T>
inline constexpr int64_t panel_cols = 2 * lanes<T>;

namespace detail {

// If k is large, panel_gemm sums over k in steps. A panel of B then has at most k_step rows: with
// 512-bit vectors the panel takes 32 KB of L1. At most col_step columns of C are computed at a
// time. They stay in a cache until all steps are added.
inline constexpr int64_t k_step = 256, col_step = 1024;
// panel_gemm sums over k in a single step if a panel that holds all rows of B has at most only_step
// rows. Each element of C is then written once, and read only if the product is added to C. Float32
// products with k = 384 and a wide C are 2 to 4% faster than in two steps.
inline constexpr int64_t only_step = 384;
// The maximum number of bytes of A that are multiplied by one packed panel of B: half of an L2
// cache of 1 MB. A larger A is split into blocks of rows, and the panels of B are packed again for
// each block.
inline constexpr int64_t near_bytes = 512 << 10;
// The size of B in bytes above which prefetching panels of B is worth its cost.
inline constexpr int64_t far_bytes = near_bytes / 2;
// The number of rows of a block of C that is summed in registers, if A is transposed and its stored
// rows are a multiple of 4 KB apart. Such rows fall into the same sets of the L1 cache, so that a
// cache line is evicted before the next block reads the rest of the line. A taller block reads more
// of each line, which is 8 to 15% faster with 512-bit vectors.
inline constexpr int64_t tall_rows = gemm_rows == 8 ? 12 : gemm_rows;
// panel_gemm calls done(tile) for each finished tile of C. A tile has at most this number of rows,
// rounded up to whole register blocks.
inline constexpr int64_t strip_rows = 48;

// Packs rows [p, p + k) and columns [j, j + cols) of op(B) into rows of panel_cols elements, padded
// with zeros.
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

// Returns whether to pack rows of A before they are multiplied. Intel's processors, unlike AMD's,
// are slow to read 8 rows in place: with packed rows, products on Emerald Rapids are 5 to 20%
// faster, and 10 to 60% where A is transposed. If C is narrow, packing costs more than it saves.
template <class T>
bool packs_rows(const Product<T>& g) {
#if defined(__x86_64__)
  static const bool intel = __builtin_cpu_is("intel");
  return vector_bytes == 64 && intel && g.n >= (g.trans_a ? 64 : 256);
#else
  return false;
#endif
}

// The number of rows of op(A) that pack_rows packs together: enough to read whole cache lines of an
// A that is transposed, and to transpose whole squares of an A that is not.
template <class T>
inline constexpr int64_t packed_rows = 2 * std::max(lanes<T>, gemm_rows);

// Packs rows [i, i + rows) and columns [p, p + k) of op(A) into blocks of gemm_rows rows. A block
// is stored by columns, as a matrix (step, gemm_rows) of which the first k rows are written. `to`
// must have space for `rows` rounded up to a multiple of packed_rows.
// Long parameter list: the position and size of a block.
template <class T>
[[gnu::noinline]] void pack_rows(const Product<T>& g, int64_t i, int64_t rows, int64_t p, int64_t k,
                                 int64_t step, T* to) {
  constexpr int64_t group = packed_rows<T>, side = group / 2;
  alignas(vector_bytes) T square[side * group] = {};
  for (int64_t r = 0; r < rows; r += group, to += group * step) {
    const int64_t n = std::min(group, rows - r);
    const auto write = [=](int64_t q, const T* column) {
      for (int64_t e = 0; e < group; e += gemm_rows)
        std::memcpy(to + e * step + q * gemm_rows, column + e, sizeof(T) * gemm_rows);
    };
    int64_t q = 0;
    for (; g.trans_a && n == group && q < k; ++q) write(q, g.a_at(i + r, p + q));
    for (; !g.trans_a && q + side <= k; q += side) {
      for (int64_t s = 0; s < n; s += side)
        transpose_square(n - s, T{1}, g.a_at(i + r + s, p + q), g.lda, square + s, group);
      for (int64_t f = 0; f < side; ++f) write(q + f, square + f * group);
    }
    for (; q < k; ++q)
      for (int64_t e = 0; e < n; ++e)
        to[e / gemm_rows * gemm_rows * step + q * gemm_rows + e % gemm_rows] =
            *g.a_at(i + r + e, p + q);
  }
}

// Prefetches the memory that pack_panel will read for a panel, some cache lines at a time.
template <class T>
struct Prefetch {
  const T* from;
  int64_t stride, rows, row_length;
  int64_t row = 0, at = 0;

  Prefetch(const Product<T>& g, int64_t step, int64_t p, int64_t j)
      : from(g.b_at(p, j)),
        stride(g.ldb),
        rows(std::min(step, g.k - p)),
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

// Computes a block of C of `rows` rows and N vectors: `rows` rows of op(A) times the first N
// vectors of each row of a panel. If `add`, adds the product to C.
template <class T, int64_t N>
[[gnu::noinline]] void panel_block(bool trans_a, bool add, int64_t rows, int64_t k, const T* a,
                                   int64_t lda, const T* panel, Sum<T>* c, int64_t ldc) {
  constexpr int64_t width = panel_cols<T>;
  if (trans_a && rows > gemm_rows && add)
    gemm_rows_of<T, true, true, N, tall_rows>(rows, k, a, lda, panel, width, c, ldc);
  else if (trans_a && rows > gemm_rows)
    gemm_rows_of<T, true, false, N, tall_rows>(rows, k, a, lda, panel, width, c, ldc);
  else if (trans_a && add)
    gemm_rows_of<T, true, true, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
  else if (trans_a)
    gemm_rows_of<T, true, false, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
  else if (add)
    gemm_rows_of<T, false, true, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
  else
    gemm_rows_of<T, false, false, N, gemm_rows>(rows, k, a, lda, panel, width, c, ldc);
}

// Computes a full block of C of gemm_rows rows like panel_block, but reads B in place and packs it
// into the panel meanwhile. Packing then costs nothing; a separate pass of packing takes as long as
// multiplying 9 rows. Products of 64 rows are 5 to 8% faster, of 256 rows 1 to 2%.
template <class T>
[[gnu::noinline]] void pack_and_multiply(bool trans_a, bool add, int64_t k, const T* a, int64_t lda,
                                         const T* b, int64_t ldb, T* panel, T* c, int64_t ldc) {
  const auto pack = [=](int64_t p, auto v, auto row) __attribute__((always_inline)) {
    T* to = panel + p * panel_cols<T> + v * lanes<T>;
    *reinterpret_cast<typename Register<T>::memory*>(to) = row;
  };
  if (trans_a && add)
    gemm_block<T, true, true, gemm_rows, 2>(k, a, lda, b, ldb, c, ldc, pack);
  else if (trans_a)
    gemm_block<T, true, false, gemm_rows, 2>(k, a, lda, b, ldb, c, ldc, pack);
  else if (add)
    gemm_block<T, false, true, gemm_rows, 2>(k, a, lda, b, ldb, c, ldc, pack);
  else
    gemm_block<T, false, false, gemm_rows, 2>(k, a, lda, b, ldb, c, ldc, pack);
}

// Calls multiply(block, stride) to compute a block of C of `rows` rows and `cols` columns. multiply
// writes whole vectors. If `cols` is less than panel_cols, multiply therefore gets a padded copy of
// the block, and the first `cols` columns are copied back to C. `rows` must be <= MaxRows.
template <class T, int64_t MaxRows, class Multiply>
void with_padding(bool add, int64_t rows, int64_t cols, Sum<T>* c, int64_t ldc,
                  const Multiply& multiply) {
  constexpr int64_t width = panel_cols<T>;
  if (cols == width) return multiply(c, ldc);
  Sum<T> block[MaxRows * width];
  for (int64_t r = 0; add && r < rows; ++r)
    std::fill(std::copy_n(c + r * ldc, cols, block + r * width), block + (r + 1) * width,
              Sum<T>{0});
  multiply(block, width);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(block + r * width, cols, c + r * ldc);
}

}  // namespace detail

/// The operands of panel_gemm without conversion: A is read in place or copied
/// (detail::packs_rows), panels of B are copied.
template <class T>
class PlainOperands {
 public:
  using Element = T;                              ///< the type of a panel's elements
  static constexpr int64_t rows_per_element = 1;  ///< rows of op(B) that each element spans

  /// Keeps a reference to g. Each call of take_rows() takes at most `rows` rows and `step` columns.
  PlainOperands(const Product<T>& g, int64_t rows, int64_t step)
      : g_(g),
        packs_(detail::packs_rows(g)),
        step_(step),
        packed_(packs_ ? ceil_div(rows, group) * group * step : 0) {}
  /// Returns the number of rows of C that are summed in registers at a time.
  static int64_t block_rows(const Product<T>& g) {
    const bool aliased = g.lda * static_cast<int64_t>(sizeof(T)) % 4096 == 0;
    return g.trans_a && aliased && !detail::packs_rows(g) ? detail::tall_rows : gemm_rows;
  }
  /// Packs rows [i, i + rows) and columns [p, p + k) of op(A), unless A is read in place.
  /// panel_gemm calls take_rows() before it uses these rows.
  void take_rows(int64_t i, int64_t rows, int64_t p, int64_t k) {
    if (!packs_ || (i == i_ && p == p_)) return;
    i_ = i, p_ = p;
    detail::pack_rows(g_, i, rows, p, k, step_, packed_.data());
  }
  /// Packs rows [p, p + k) and columns [j, j + cols) of op(B) into the panel `to`. May meanwhile
  /// multiply some rows of op(A), from row i on, by the panel, and write the product to C or, if
  /// `add`, add it to C. Returns the number of these rows, which is less than end - i.
  // Long parameter list: the positions of a panel and of rows.
  int64_t pack(bool add, int64_t i, int64_t end, int64_t p, int64_t k, int64_t j, int64_t cols,
               T* to) const {
    if (g_.trans_b || cols < panel_cols<T> || end - i <= gemm_rows || block_rows(g_) > gemm_rows) {
      detail::pack_panel(g_, p, k, j, cols, to);
      return 0;
    }
    detail::pack_and_multiply(trans_a(), add, k, a_at(i, p), lda(), g_.b_at(p, j), g_.ldb, to,
                              g_.c + i * g_.ldc + j, g_.ldc);
    return gemm_rows;
  }
  /// Multiplies rows [i, i + rows) and columns [p, p + k) of op(A) by a packed panel of k rows.
  /// Writes the product to C, from column j on, or adds it to C if `add`. The rows and columns of
  /// op(A) must be in the block that was last passed to take_rows().
  // Long parameter list: the positions of a block.
  void multiply(bool add, int64_t i, int64_t rows, int64_t p, int64_t k, int64_t j,
                const T* panel) const {
    const int64_t cols = std::min(panel_cols<T>, g_.n - j);
    const auto block = cols <= lanes<T> ? detail::panel_block<T, 1> : detail::panel_block<T, 2>;
    detail::with_padding<T, detail::tall_rows>(
        add, rows, cols, g_.c + i * g_.ldc + j, g_.ldc, [&](T* c, int64_t ldc) {
          for (int64_t r = 0; packs_ && r < rows; ++r)
            for (int64_t v = 0; v < cols; v += lanes<T>) __builtin_prefetch(c + r * ldc + v);
          block(trans_a(), add, rows, k, a_at(i, p), lda(), panel, c, ldc);
        });
  }

 private:
  // Returns panel_block's operand A: rows of op(A) from row i on, in the packed block or in place.
  const T* a_at(int64_t i, int64_t p) const {
    return packs_ ? packed_.data() + (i - i_) * step_ : g_.a_at(i, p);
  }
  bool trans_a() const { return packs_ || g_.trans_a; }
  int64_t lda() const { return packs_ ? gemm_rows : g_.lda; }

  static constexpr int64_t group = detail::packed_rows<T>;
  const Product<T>& g_;
  bool packs_;
  int64_t step_, i_ = -1, p_ = -1;
  Scratch<T> packed_;
};

/// Computes the product g, whose sizes must be positive. Operands is PlainOperands<T>, or
/// RoundedOperands to round to bfloat16. Calls done(tile) for each tile of C when it is final and
/// still in the nearest cache. Several calls that split the columns of C at multiples of panel_cols
/// give a result that is bit-identical to that of one call.
template <class Operands, class T, class Done>
void panel_gemm(const Product<T>& g, Done&& done) {
  using namespace detail;
  using Element = typename Operands::Element;
  constexpr int64_t per = Operands::rows_per_element, width = panel_cols<Element>;
  const int64_t steps = g.k <= per * only_step ? 1 : ceil_div(g.k, per * k_step);
  const int64_t step = padded<Element>(ceil_div(g.k, per * steps)) * per;
  const bool far = g.n * g.k * static_cast<int64_t>(sizeof(T)) > far_bytes;
  const int64_t panel_lines = step * width * static_cast<int64_t>(sizeof(T)) / 64;
  const Scratch<Element> panel(step / per * width);
  const int64_t block = Operands::block_rows(g), strip = ceil_div(strip_rows, block) * block;
  const int64_t row_step =
      near_bytes / static_cast<int64_t>(sizeof(Element)) / (step / per) / block * block;
  Operands operands(g, std::min(row_step, g.m), step);
  for (int64_t i0 = 0; i0 < g.m; i0 += row_step) {
    const int64_t i1 = std::min(i0 + row_step, g.m), n = g.lower ? std::min(g.n, i1) : g.n;
    for (int64_t j0 = 0; j0 < n; j0 += col_step)
      for (int64_t p = 0; p < g.k; p += step) {
        const int64_t j1 = std::min(j0 + col_step, n);
        const int64_t k = std::min(step, g.k - p), elements = ceil_div(k, per);
        const bool add = g.add || p > 0, last = p + k == g.k;
        // Cache lines to prefetch per block.
        const int64_t lines = ceil_div(panel_lines, ceil_div(i1 - i0, block));
        operands.take_rows(i0, i1 - i0, p, k);
        for (int64_t j = j0; j < j1; j += width) {
          const int64_t cols = std::min(width, g.n - j);
          const int64_t first = g.lower ? std::max(i0, j) : i0;
          const int64_t packed = operands.pack(add, first, i1, p, k, j, cols, panel.data());
          Prefetch<T> next = j + cols < j1 ? Prefetch<T>(g, step, p, j + cols)
                             : !last       ? Prefetch<T>(g, step, p + k, j0)
                                           : Prefetch<T>(g, step, 0, j1 < n ? j1 : 0);
          for (int64_t i = first + packed; i < i1; i += block) {
            const int64_t rows = std::min(block, i1 - i), end = i + rows;
            if (far) next.next(lines);
            operands.multiply(add, i, rows, p, elements, j, panel.data());
            if (last && (end == i1 || (end - i0) % strip == 0)) {
              const int64_t begin = i0 + (end - 1 - i0) / strip * strip;
              done(Tile{begin, end - begin, j, cols});
            }
          }
        }
      }
  }
}

}  // namespace gradus::kernel
