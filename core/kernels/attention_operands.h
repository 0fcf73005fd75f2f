#pragma once
// Packs the operands of the products in attention's tiles, unchanged or rounded to bfloat16.
//
// The functions are templates on an operand's element E. A float or double element is one scalar. A
// Pair (bfloat16_pairs.h) holds two neighbouring scalars along the summed axis of the product;
// scalars and sums then have type Sum<Pair>, which is float.

#include <algorithm>

#include "gradus/core/kernels/products/bfloat16_pairs.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel::detail {

/// Rows of whole vectors: each row's length is a multiple of the vector length, padded with zeros
/// where needed. Row i starts at data + i * stride.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  T* at(int64_t i) const { return data + i * stride; }
};

/// Returns n rows of `dim` scalars as rows of elements E, padded with zeros to whole vectors, for
/// products that sum along the rows. The rows start at `first`, lie `stride` scalars apart and are
/// multiplied by `factor`. The result is the rows themselves if they need no change, else a copy in
/// `space`, which needs n * padded(elements_of(dim)) elements.
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

/// Packs rows as pack_along does, for products that sum over the rows. If E is a Pair, row i of the
/// result holds rows 2 i and 2 i + 1, where zeros stand for a missing row, and `space` needs
/// elements_of(n) * padded(dim) elements.
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

/// Returns the dot product of two rows of n scalars. If E is a Pair, x is rounded to bfloat16.
template <class E>
Sum<E> packed_dot(int64_t n, const Sum<E>* x, const Sum<E>* y) {
  if constexpr (is_pair<E>)
    return dot_rounded(n, x, y);
  else
    return dot(n, x, y);
}

/// The same rows, packed for both kinds of products.
template <class E>
struct PackedRows {
  Rows<const E> along, down;
};

/// Packs rows with pack_along and pack_down. Only a Pair needs `down_space`.
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

/// Packs the transpose of n rows of `dim` scalars into `to`, for products that sum over the rows of
/// `to`.
/// `to` has padded(elements_of(dim)) rows of padded(n) elements. `space` is used for a copy of the
/// rows, if one is needed.
// Long parameter list: that of pack_along, and where to write.
template <class E>
void pack_transposed(Sum<E> factor, const Sum<E>* first, int64_t stride, int64_t n, int64_t dim,
                     E* space, E* to) {
  // A Pair cannot be scaled, so rows are scaled before they are rounded to Pairs. Other rows are
  // scaled as they are transposed: pack_along then copies them only if they need padding.
  const Sum<E> early = is_pair<E> ? factor : Sum<E>{1};
  const E late = is_pair<E> ? E{1} : static_cast<E>(factor);
  const Rows<const E> rows = pack_along(early, first, stride, n, dim, space);
  tile_transpose(n, padded<E>(elements_of<E>(dim)), late, rows.data, rows.stride, to, padded<E>(n));
}

}  // namespace gradus::kernel::detail
