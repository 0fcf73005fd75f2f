#pragma once
// Rounds float32 matrices to bfloat16 and packs two scalars into each 32-bit lane, the operand
// format of the processor's bfloat16 instructions (ProductKernel::bfloat16_panel, packed_panel,
// tile and window).
//
// The baseline rounds A and B and then computes a float32 product. A bfloat16 vector instruction
// does 32 multiply-adds, a float32 instruction 16. On Zen 4 and 5, products take 0.49 to 0.63 of
// float32's time, including rounding and packing. On Intel's processors the vector instruction runs
// at half the rate, but they have AMX (amx.h). Rounding is to the nearest, ties to even. Denormal
// numbers count as 0.

#include <array>

#include "gradus/core/kernels/products/amx.h"
#include "gradus/core/kernels/products/panel_gemm.h"
#include "gradus/core/kernels/products/product.h"

namespace gradus::kernel {

/// Two bfloat16 numbers that are neighbours along the axis that a product sums over. The first is
/// in the low half.
using Pair = uint32_t;

/// Whether E is the type Pair, that is, two scalars rounded to bfloat16.
template <class E>
inline constexpr bool is_pair = std::is_same_v<E, Pair>;

/// The number of scalars in an element E of a product's operand: 2 in a Pair, else 1.
template <class E>
inline constexpr int64_t scalars = is_pair<E> ? 2 : 1;

/// Returns how many elements E are needed to hold n scalars along the axis that a product sums
/// over.
template <class E>
constexpr int64_t elements_of(int64_t n) {
  return ceil_div(n, scalars<E>);
}

/// Calls f(TypeTag<Pair>{}) if `rounded` and this build can round T to bfloat16, else
/// f(TypeTag<T>{}). The tag's type is the element type of a product's operands.
template <class T, class F>
void with_elements(bool rounded, F&& f) {
  if constexpr (can_round<T>)
    if (rounded) return f(TypeTag<Pair>{});
  f(TypeTag<T>{});
}

/// The operands of panel_gemm, rounded to bfloat16. A block of A is rounded before it is
/// multiplied, and a panel of B when it is packed.
class RoundedOperands;

namespace detail {

// Rounds rows [i, i + rows) and columns [p, p + k) of op(A) to bfloat16 and packs neighbours in a
// row into pairs. Row r of the result starts at to + r * pairs. `pairs` is a multiple of 16 and at
// least k / 2. If A is transposed, `to` must have space for whole blocks of 16 rows.
// Long parameter list: the position and size of a block.
void round_rows(const blas::Product<float>& g, int64_t i, int64_t rows, int64_t p, int64_t k,
                int64_t pairs, Pair* to);

// Rounds and packs rows [p, p + k) and columns [j, j + cols) of op(B) into ceil(k / 2) rows of 32
// pairs, padded with zeros. `to` must have space for this number of rows, rounded up to a multiple
// of 16.
void pack_pairs(const blas::Product<float>& g, int64_t p, int64_t k, int64_t j, int64_t cols,
                Pair* to);

// Both functions multiply a matrix x (n, cols) with row stride `stride` by `factor` and round the
// products to pairs. round_along pairs neighbours in a row and writes n rows of ceil(cols / 2)
// pairs. round_down pairs neighbours in a column and writes ceil(n / 2) rows of `cols` pairs. Rows
// of pairs are padded with zeros to whole vectors.
void round_along(float factor, const float* x, int64_t stride, int64_t n, int64_t cols, Pair* to);
void round_down(float factor, const float* x, int64_t stride, int64_t n, int64_t cols, Pair* to);

// Computes C = op(A) B, or C += op(A) B if `add`, like tile_gemm, in the processor's tile
// registers. Requires has_amx(). If TransA, the rows of A must be readable up to a multiple of 16
// elements.
// Long parameter list: as in BLAS's gemm.
template <bool TransA>
void amx_gemm(bool add, int64_t m, int64_t n, int64_t k, const Pair* a, int64_t lda, const Pair* b,
              int64_t ldb, float* c, int64_t ldc);

// Sets to[r * stride + q] = a[rows[r] + columns[q]] for r < m and q < n, where n <= 8.
// Long parameter list: two matrices, and where the elements of one are.
void gather_columns(int64_t m, int64_t n, const Pair* a, const int64_t* rows,
                    const int64_t* columns, Pair* to, int64_t stride);

// Returns the dot product of two rows of n elements. Rounds x to bfloat16 first, but not y.
float dot_rounded(int64_t n, const float* x, const float* y);

}  // namespace detail
}  // namespace gradus::kernel

// Only builds with AVX512-BF16 and AVX512-BW define the functions that `detail` declares above. In
// other builds nothing calls them, because can_round is false.
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
#include <immintrin.h>

namespace gradus::kernel {

namespace detail {

template <>
struct MultiplyAdd<Pair> {
  using Sum = float;
  [[gnu::always_inline]] static void apply(__m512& sum, Pair x, Register<Pair>::type row) {
    const __m512i both = _mm512_set1_epi32(static_cast<int>(x));
    sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(both), reinterpret_cast<__m512bh>(row));
  }
};

constexpr __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

// Returns the first clamp(n, 0, 16) elements of x, followed by zeros.
inline __m512 load_first(int64_t n, const float* x) {
  return _mm512_maskz_loadu_ps(first_lanes(n), x);
}

// Rounds the lanes x0, x1, ... of `first`, followed by those of `second`, and returns them as pairs
// x0 x1, x2 x3, ...
inline __m512i pairs_of(__m512 first, __m512 second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}

// Returns pairs of elements with the same index in two rows: x0 y0, x1 y1, ...
inline __m512i pairs_between(__m512 x, __m512 y) {
  alignas(64) static constexpr auto order = [] {
    std::array<uint16_t, 32> at{};
    for (uint16_t i = 0; i < 32; ++i) at[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
    return at;
  }();
  return _mm512_permutexvar_epi16(_mm512_load_si512(order.data()), pairs_of(x, y));
}

// Returns 32 neighbouring elements, starting at x, as 16 pairs. All but the first n elements count
// as zeros.
inline __m512i round_first(int64_t n, const float* x) {
  return pairs_of(load_first(n, x), load_first(n - 16, x + 16));
}

// Rounds a block of op(A) to pairs of bfloat16. Prefetches the rows of A that it reads next,
// because A is usually not in a near cache: with prefetching, products are 3 to 8% faster.
// Long parameter list: see the declaration.
inline void round_rows(const blas::Product<float>& g, int64_t i, int64_t rows, int64_t p, int64_t k,
                       int64_t pairs, Pair* to) {
  if (!g.trans_a) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t q = 0; q < k; q += 32) {
        const float* x = g.a_at(i + r, p + q);
        __builtin_prefetch(x + 2 * g.lda);
        __builtin_prefetch(x + 2 * g.lda + 16);
        _mm512_storeu_si512(to + r * pairs + q / 2, round_first(k - q, x));
      }
    return;
  }
  alignas(64) Pair square[16 * 16];
  for (int64_t r = 0; r < rows; r += 16)
    for (int64_t q = 0; q < k; q += 32) {
      const float* x = g.a_at(i + r, p + q);
      for (int64_t s = 0; s < 32; s += 2, x += 2 * g.lda) {
        const int64_t first = q + s < k ? rows - r : 0, second = q + s + 1 < k ? rows - r : 0;
        __builtin_prefetch(x + 8 * g.lda);
        __builtin_prefetch(x + 9 * g.lda);
        _mm512_store_si512(square + s * 8,
                           pairs_between(load_first(first, x), load_first(second, x + g.lda)));
      }
      transpose_square<Pair>(16, 1, square, 16, to + r * pairs + q / 2, pairs);
    }
}

[[gnu::noinline]] inline void pack_pairs(const blas::Product<float>& g, int64_t p, int64_t k,
                                         int64_t j, int64_t cols, Pair* to) {
  constexpr int64_t width = 32;
  if (!g.trans_b) {
    for (int64_t q = 0; q < k; q += 2, to += width)
      for (int64_t c = 0; c < width; c += 16) {
        const float* x = g.b_at(p + q, j) + c;
        const int64_t below = q + 1 < k ? cols - c : 0;
        _mm512_store_si512(to + c,
                           pairs_between(load_first(cols - c, x), load_first(below, x + g.ldb)));
      }
    return;
  }
  alignas(64) Pair square[16 * 16];
  for (int64_t q = 0; q < k; q += 32)
    for (int64_t c = 0; c < width; c += 16) {
      for (int64_t r = 0; r < 16; ++r)
        _mm512_store_si512(square + r * 16,
                           round_first(c + r < cols ? k - q : 0, g.b_at(p + q, j + c + r)));
      transpose_square<Pair>(16, 1, square, 16, to + q / 2 * width + c, width);
    }
}

inline void round_along(float factor, const float* x, int64_t stride, int64_t n, int64_t cols,
                        Pair* to) {
  const __m512 scale = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < n; ++i, x += stride) {
    int64_t c = 0;
    for (; c + 32 <= cols; c += 32, to += 16)
      _mm512_storeu_si512(
          to, pairs_of(scale * _mm512_loadu_ps(x + c), scale * _mm512_loadu_ps(x + c + 16)));
    if (c == cols) continue;
    _mm512_storeu_si512(to, pairs_of(scale * load_first(cols - c, x + c),
                                     scale * load_first(cols - c - 16, x + c + 16)));
    to += 16;
  }
}

inline void round_down(float factor, const float* x, int64_t stride, int64_t n, int64_t cols,
                       Pair* to) {
  const __m512 scale = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < n; i += 2, x += 2 * stride) {
    int64_t c = 0;
    for (; i + 1 < n && c + 16 <= cols; c += 16, to += 16)
      _mm512_storeu_si512(to, pairs_between(scale * _mm512_loadu_ps(x + c),
                                            scale * _mm512_loadu_ps(x + stride + c)));
    for (; c < cols; c += 16, to += 16) {
      const int64_t below = i + 1 < n ? cols - c : 0;
      _mm512_storeu_si512(to, pairs_between(scale * load_first(cols - c, x + c),
                                            scale * load_first(below, x + stride + c)));
    }
  }
}

// Long parameter list: see the declaration.
template <bool TransA>
void amx_gemm(bool add, int64_t m, int64_t n, int64_t k, const Pair* a, int64_t lda, const Pair* b,
              int64_t ldb, float* c, int64_t ldc) {
  TileRegisters tiles;
  if (!TransA) return tiles.multiply(add, m, n, k, a, lda, b, ldb, c, ldc);
  const auto transpose = [=](int64_t i, int64_t rows, int64_t p, int64_t depth, Pair* block,
                             int64_t stride) {
    for (int64_t r = 0; r < rows; r += 16)
      for (int64_t q = 0; q < depth; q += 16)
        transpose_square<Pair>(depth - q, 1, a + (p + q) * lda + i + r, lda, block + r * stride + q,
                               stride);
  };
  tiles.multiply_blocks(add, m, n, k, transpose, b, ldb, c, ldc);
}

// Long parameter list: see the declaration.
inline void gather_columns(int64_t m, int64_t n, const Pair* a, const int64_t* rows,
                           const int64_t* columns, Pair* to, int64_t stride) {
  const auto lanes = static_cast<__mmask8>(first_lanes(n));
  const __m512i at = _mm512_maskz_loadu_epi64(lanes, columns);
  for (int64_t r = 0; r < m; ++r)
    _mm256_mask_storeu_epi32(
        to + r * stride, lanes,
        _mm512_mask_i64gather_epi32(__m256i{}, lanes, at, a + rows[r], sizeof(Pair)));
}

inline float dot_rounded(int64_t n, const float* x, const float* y) {
  __m512 sum{};
  for (int64_t i = 0; i < n; i += 16) {
    // Read as a float, a lane of a bfloat16 (high half) and 0 (low half) is the same number.
    const __m512i high = pairs_between(__m512{}, load_first(n - i, x + i));
    sum += reinterpret_cast<__m512>(high) * load_first(n - i, y + i);
  }
  return sum_lanes(sum, std::make_index_sequence<16>{});
}

}  // namespace detail

class RoundedOperands {
 public:
  using Element = Pair;
  static constexpr int64_t rows_per_element = 2;
  explicit RoundedOperands(const blas::Product<float>& g, int64_t rows, int64_t step)
      : g_(g), stride_(step / 2), rounded_(ceil_div(rows, int64_t{16}) * 16 * stride_) {}
  static int64_t block_rows(const blas::Product<float>&) {
    return has_amx() ? most_rows : gemm_rows;
  }
  void take_rows(int64_t i, int64_t rows, int64_t p, int64_t k) {
    if (i == i_ && p == p_) return;
    i_ = i, p_ = p;
    detail::round_rows(g_, i, rows, p, k, stride_, rounded_.data());
  }
  // Long parameter list: as in PlainOperands.
  int64_t pack(bool, int64_t, int64_t, int64_t p, int64_t k, int64_t j, int64_t cols,
               Pair* to) const {
    detail::pack_pairs(g_, p, k, j, cols, to);
    return 0;
  }
  // Long parameter list: as in PlainOperands.
  void multiply(bool add, int64_t i, int64_t rows, int64_t, int64_t k, int64_t j,
                const Pair* panel) {
    const Pair* const a = rounded_.data() + (i - i_) * stride_;
    const int64_t cols = std::min(panel_cols<Pair>, g_.n - j), whole = padded<float>(cols);
    detail::with_padding<Pair, most_rows>(
        add, rows, cols, g_.c + i * g_.ldc + j, g_.ldc, [&](float* c, int64_t ldc) {
          if (has_amx())
            return tiles_.multiply(add, rows, whole, k, a, stride_, panel, panel_cols<Pair>, c,
                                   ldc);
          const auto block =
              whole == lanes<Pair> ? detail::panel_block<Pair, 1> : detail::panel_block<Pair, 2>;
          block(false, add, rows, k, a, stride_, panel, c, ldc);
        });
  }

 private:
  static constexpr int64_t most_rows = 64;  // maximum per call of multiply()
  const blas::Product<float>& g_;
  int64_t stride_, i_ = -1, p_ = -1;
  Scratch<Pair> rounded_;
  TileRegisters tiles_;
};

}  // namespace gradus::kernel
#endif
