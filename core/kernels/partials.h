#pragma once
// Column sums over many rows. Each chunk of rows has a partial sum. The partial sums are added in
// the order of the chunks, so the result is bit-identical for any number of threads.

#include <algorithm>

#include "gradus/core/runtime/ceil_div.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

/// Returns the number of rows per chunk: 32 KB of rows or 1/32 of all rows, whichever is more, so
/// that there are few partial sums. The number is at most 1,024, to keep float32 sums accurate.
inline int64_t rows_per_partial(int64_t rows, int64_t row_bytes) {
  const int64_t many = std::max(32768 / std::max<int64_t>(row_bytes, 1), (rows + 31) / 32);
  return std::clamp<int64_t>(many, 1, 1024);
}

inline int64_t partial_count(int64_t rows, int64_t rows_per_chunk) {
  return internal::ceil_div(rows, rows_per_chunk);
}

/// Sums `partials` (chunks, n) over the chunks, in order and in double, and writes the sums to
/// `out` (n).
template <class T>
void add_partials(const T* partials, int64_t chunks, int64_t n, T* out) {
  constexpr int64_t width = 256;
  double totals[width];
  for (int64_t begin = 0; begin < n; begin += width) {
    const int64_t m = std::min(width, n - begin);
    std::fill_n(totals, m, 0.0);
    for (int64_t c = 0; c < chunks; ++c)
      simd_for(m, [total = totals, partial = partials + c * n + begin](int64_t j) {
        total[j] += static_cast<double>(partial[j]);
      });
    for (int64_t j = 0; j < m; ++j) out[begin + j] = static_cast<T>(totals[j]);
  }
}

/// Adds the sum of each column of x (rows, n) to `sums` (n).
template <class T>
void add_columns(const T* x, int64_t rows, int64_t n, T* sums) {
  for (int64_t i = 0; i < rows; ++i, x += n) simd_for(n, [=](int64_t j) { sums[j] += x[j]; });
}

}  // namespace gradus::kernel
