#pragma once
// Helpers that the forward and the backward pass of attention share: scratch memory, sums in rows
// that are padded to whole vectors, tiles of scores, and masks.

#include "gradus/core/kernels/attention.h"
#include "gradus/core/kernels/attention_operands.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel::detail {

/// The approximate minimum number of multiply-adds per chunk of a parallel loop over queries
/// (min_query_work) or over tiles (min_tile_work).
inline constexpr int64_t min_query_work = int64_t{1} << 16, min_tile_work = int64_t{1} << 19;

template <class T>
inline constexpr T inf = std::numeric_limits<T>::infinity();

/// A block of scratch memory that take(n) hands out in pieces: each call returns the next n
/// elements, aligned to a vector. The block must have space for all pieces, each rounded up to
/// whole vectors; this is not checked.
template <class T>
class Arena {
 public:
  explicit Arena(int64_t n) : scratch_(n), next_(scratch_.data()) {}
  T* take(int64_t n) { return std::exchange(next_, next_ + padded<T>(n)); }

 private:
  Scratch<T> scratch_;
  T* next_;
};

/// Returns n rows in which to accumulate sums for `result`, a matrix with row stride `stride`. If
/// `dim` is a multiple of the vector length, these are the rows of `result`. Otherwise they are
/// padded rows in `space`, which needs n * padded(dim) elements; close_sums later copies them to
/// `result`. The sums start at 0 if `fresh`, else at the values in `result`. If `result` is null,
/// the returned rows are null too.
template <class T>
Rows<T> open_sums(T* result, int64_t stride, int64_t n, int64_t dim, bool fresh, T* space) {
  const int64_t width = padded<T>(dim);
  const Rows<T> sums = width == dim || !result ? Rows<T>{result, stride} : Rows<T>{space, width};
  for (int64_t i = 0; i < n && result; ++i) {
    if (fresh || sums.data != result) std::fill_n(sums.at(i), width, T{0});
    if (!fresh && sums.data != result) std::copy_n(result + i * stride, dim, sums.at(i));
  }
  return sums;
}

template <class T>
void close_sums(Rows<T> sums, T* result, int64_t stride, int64_t n, int64_t dim) {
  for (int64_t i = 0; i < n && sums.data != result; ++i)
    std::copy_n(sums.at(i), dim, result + i * stride);
}

/// A tile (rows, cols) of the scores of head h in batch entry b. Its first element is the score of
/// query i and key j. If `keys_down`, its rows are keys and its columns queries, else vice versa.
template <class T>
struct Scores {
  int64_t b, h, i, j;
  bool keys_down;
  int64_t rows, cols;
  T* data;
  int64_t stride;
};

/// Adds p.bias to the scores, or sets the scores where p.visible is false to -infinity.
template <class T>
void apply_mask(const Attention<T>& p, const Scores<T>& tile) {
  if (!p.visible && !p.bias) return;
  const auto [mb, mh, mq, mk] = p.mask_strides;
  const int64_t down = tile.keys_down ? mk : mq, across = tile.keys_down ? mq : mk;
  int64_t at = tile.b * mb + tile.h * mh + tile.i * mq + tile.j * mk;
  T* s = tile.data;
  for (int64_t r = 0; r < tile.rows; ++r, at += down, s += tile.stride) {
    if (p.visible) {
      simd_for(tile.cols,
               [=, mask = p.visible + at](int64_t c) { s[c] = mask[c * across] ? s[c] : -inf<T>; });
    } else {
      simd_for(tile.cols, [=, bias = p.bias + at](int64_t c) { s[c] += bias[c * across]; });
    }
  }
}

}  // namespace gradus::kernel::detail
