#pragma once
// Bias and activation of a linear layer, and the gradients of both. The forward pass applies bias
// and activation to each tile of the matrix product while the tile is in a cache. The backward pass
// computes both gradients in one pass.
//
// The composed form, written with basic ops, is composed_linear in core/ops/matmul.cpp. There the
// bias and the activation are separate ops, and each reads and writes the output once more.

#include "gradus/core/kernels/math.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// Prefetches a row of n elements that belongs to the next tile. Hardware prefetchers miss these
/// rows, because a tile's rows are short and far apart. The row may lie past the end of its tensor,
/// because prefetching an invalid address does nothing.
template <bool for_writing, class T>
[[gnu::always_inline]] inline void prefetch_row(const T* row, int64_t n) {
  for (int64_t j = 0; j < n; j += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(row + j, for_writing);
}

/// Computes y[j] = act(z(j)) for a row of n elements and, unless `slope` is null, slope[j] =
/// act'(z(j)).
template <class Act, class T, class PreActivation>
void activation_row(int64_t n, T* y, T* slope, PreActivation z) {
  if (slope)
    simd_for(n, [=](int64_t j) {
      const auto [value, derivative] = Act::at(z(j));
      y[j] = value;
      slope[j] = derivative;
    });
  else
    simd_for(n, [=](int64_t j) { y[j] = Act::at(z(j)).value; });
}

/// Computes y = act(z + bias) over a tile (rows, cols) and, unless `slope` is null,
/// slope = act'(z + bias). z, y and slope have row stride `stride`. If y is not z, z is overwritten
/// with z + bias. bias may be null.
// Long parameter list: a tile's sizes and the four arrays.
template <class Act, class T>
void bias_activation(int64_t rows, int64_t cols, int64_t stride, const T* bias, T* z, T* y,
                     T* slope) {
  for (int64_t i = 0; i < rows; ++i, z += stride, y += stride, slope += slope ? stride : 0) {
    if (y != z) prefetch_row<true>(y + rows * stride, cols);
    if (slope) prefetch_row<true>(slope + rows * stride, cols);
    if (!bias)
      activation_row<Act>(cols, y, slope, [=](int64_t j) { return z[j]; });
    else if (y == z)
      activation_row<Act>(cols, y, slope, [=](int64_t j) { return z[j] + bias[j]; });
    else
      activation_row<Act>(cols, y, slope, [=](int64_t j) { return z[j] += bias[j]; });
  }
}

/// Computes dz = gradient(dy, kept) per element and adds the sum of dz over the rows to dbias. The
/// rows are contiguous and have n elements. `kept` is what forward saved: the slope or the output
/// of the activation. dbias may be null, and dz may be dy.
// Long parameter list: sizes, four arrays and the function.
template <class T, class Gradient>
void bias_activation_backward(int64_t rows, int64_t n, const T* dy, const T* kept, T* dz, T* dbias,
                              Gradient gradient) {
  for (int64_t at = 0; at < rows * n; at += n) {
    if (dbias)
      simd_for(n, [=](int64_t j) {
        const T g = gradient(dy[at + j], kept[at + j]);
        dz[at + j] = g;
        dbias[j] += g;
      });
    else
      simd_for(n, [=](int64_t j) { dz[at + j] = gradient(dy[at + j], kept[at + j]); });
  }
}

}  // namespace gradus::kernel
