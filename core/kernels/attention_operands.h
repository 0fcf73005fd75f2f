#pragma once
// Packs the operands of attention's matrix products, either unchanged or rounded to bfloat16.
//
// The functions are templates on the type E of an operand's elements. A float or double element is
// one scalar. A Pair (bfloat16_pairs.h) holds two scalars that are neighbours along the axis over
// which the product sums. Sums, and scalars before they are packed, have type Sum<E>: float if E is
// Pair, else E.

#include <algorithm>

#include "gradus/core/kernels/products/bfloat16_pairs.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel::detail {

/// A matrix whose row i starts at data + i * stride. Each row is padded with zeros, where needed,
/// to a multiple of the vector length.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  T* at(int64_t i) const { return data + i * stride; }
};

/// Returns n rows of `dim` scalars, multiplied by `factor` and packed for products that sum along
/// each row. Source row i starts at first + i * stride. Each element of a packed row holds one
/// scalar or, if E is a Pair, two neighbouring scalars rounded to bfloat16. A packed row is padded
/// with zeros to whole vectors. The packed rows are written to `space`, which needs
/// n * padded(elements_of(dim)) elements. If no rounding, padding or factor is needed, returns the
/// source rows without a copy and does not use `space`.
template <class E>
Rows<const E> pack_along(Sum<E> factor, const Sum<E>* first, int64_t stride, int64_t n, int64_t dim,
                         E* space) {
  const int64_t width = padded<E>(elements_of<E>(dim));
  if constexpr (is_pair<E>) {
    round_along(factor, first, stride, n, dim, space);
  } else {
    if (width == dim && factor == 1) return {first, stride};
    for (int64_t i = 0; i < n; ++i) {
      E* const to = space + i * width;
      simd_for(dim, [=, from = first + i * stride](int64_t d) { to[d] = factor * from[d]; });
      std::fill(to + dim, to + width, E{0});
    }
  }
  return {space, width};
}

/// Returns n rows of `dim` scalars, multiplied by `factor` and packed for products that sum over
/// the row index. The parameters are those of pack_along. If E is not a Pair, the result is that of
/// pack_along. If E is a Pair, row i of the result pairs the elements of source rows 2i and 2i + 1,
/// and `space` needs elements_of(n) * padded(dim) elements. If n is odd, the last source row is
/// paired with zeros.
template <class E>
Rows<const E> pack_down(Sum<E> factor, const Sum<E>* first, int64_t stride, int64_t n, int64_t dim,
                        E* space) {
  if constexpr (!is_pair<E>) {
    return pack_along(factor, first, stride, n, dim, space);
  } else {
    round_down(factor, first, stride, n, dim, space);
    return {space, padded<E>(dim)};
  }
}

/// Computes C = op(A) B, or C += op(A) B if Add, where op(A) is A or, if TransA, its transpose.
/// Uses AMX tile registers if E is a Pair and has_amx(), else tile_gemm. If TransA, each row of A
/// must be readable up to a multiple of the vector length.
// Long parameter list: that of tile_gemm.
template <class E, bool TransA, bool Add>
void multiply_tiles(int64_t m, int64_t n, int64_t k, const E* a, int64_t lda, const E* b,
                    int64_t ldb, Sum<E>* c, int64_t ldc) {
  if constexpr (is_pair<E>)
    if (has_amx()) return amx_gemm<TransA>(Add, m, n, k, a, lda, b, ldb, c, ldc);
  tile_gemm<E, TransA, Add>(m, n, k, a, lda, b, ldb, c, ldc);
}

/// Returns how many rows of a tile attention multiplies at a time if a causal mask or a window
/// hides some of the tile's scores.
template <class E>
int64_t rows_at_once() {
  return is_pair<E> && has_amx() ? 32 : gemm_rows;
}

/// Returns the dot product of two rows of n scalars. If E is a Pair, rounds x to bfloat16 first,
/// but not y.
template <class E>
Sum<E> packed_dot(int64_t n, const Sum<E>* x, const Sum<E>* y) {
  if constexpr (is_pair<E>)
    return dot_rounded(n, x, y);
  else
    return dot(n, x, y);
}

/// The same matrix packed twice: by pack_along (`along`) and by pack_down (`down`).
template <class E>
struct PackedRows {
  Rows<const E> along, down;
};

/// Returns n rows of `dim` scalars packed twice: by pack_along with `along_space`, and by pack_down
/// with `down_space`. Unless E is a Pair, both results are that of pack_along, and `down_space` is
/// not used.
// Long parameter list: that of pack_along, and a second space.
template <class E>
PackedRows<E> pack_both(Sum<E> factor, const Sum<E>* first, int64_t stride, int64_t n, int64_t dim,
                        E* along_space, E* down_space) {
  const Rows<const E> along = pack_along(factor, first, stride, n, dim, along_space);
  if constexpr (is_pair<E>)
    return {along, pack_down(factor, first, stride, n, dim, down_space)};
  else
    return {along, along};
}

/// Writes factor * S^T to `to`, for products that sum over the rows of `to`. The matrix S has n
/// rows of `dim` scalars, and row i starts at first + i * stride. `to` has
/// padded(elements_of(dim)) rows of padded(n) elements. `space` is for an intermediate copy of S
/// and needs n * padded(elements_of(dim)) elements.
// Long parameter list: that of pack_along, and where to write.
template <class E>
void pack_transposed(Sum<E> factor, const Sum<E>* first, int64_t stride, int64_t n, int64_t dim,
                     E* space, E* to) {
  // Pairs cannot be multiplied by the factor, so scalars are multiplied before they are rounded to
  // Pairs. Other elements are multiplied while they are transposed, so that pack_along copies them
  // only if they need padding.
  const Sum<E> early = is_pair<E> ? factor : Sum<E>{1};
  const E late = is_pair<E> ? E{1} : static_cast<E>(factor);
  const Rows<const E> rows = pack_along(early, first, stride, n, dim, space);
  tile_transpose(n, padded<E>(elements_of<E>(dim)), late, rows.data, rows.stride, to, padded<E>(n));
}

}  // namespace gradus::kernel::detail
