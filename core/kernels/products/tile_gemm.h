#pragma once
// Products and transposes of small matrices that lie in the caches (ProductKernel::tile).
//
// The baseline is C = op(A) B by BLAS or as three nested loops, where op(A) is A or its transpose.
// This kernel packs nothing and calls no library. From about 32 x 32 x 32 on it runs near the
// machine's peak, at sizes where BLAS still spends its time on preparations. A block of C is summed
// in registers. With AVX2, attention is 4 to 6% faster with blocks of 6 rows, the most that fit the
// registers, than with blocks of 4. The code uses the vector types that GCC and clang share,
// because neither compiler keeps a block in registers if it is written as plain loops.
//
// Long parameter lists: as in BLAS's gemm, each matrix is passed as a pointer and a row stride,
// which stay in registers.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "gradus/core/runtime/ceil_div.h"

namespace gradus::kernel {

// A block of C that is summed in registers has gemm_rows rows of 2 vectors each. This is enough to
// hide the latency of a multiply-add, and few enough to fit the registers together with the
// operands (16 registers with AVX2 and SSE, 32 with AVX-512).
#if defined(__AVX512F__)
inline constexpr int64_t vector_bytes = 64;
inline constexpr int64_t gemm_rows = 8;
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr int64_t vector_bytes = 32;
inline constexpr int64_t gemm_rows = 6;
#else
inline constexpr int64_t vector_bytes = 16;
inline constexpr int64_t gemm_rows = 4;
#endif

/// Number of elements of T in a vector register.
template <class T>
inline constexpr int64_t lanes = vector_bytes / static_cast<int64_t>(sizeof(T));

using internal::ceil_div;

/// Returns n rounded up to whole vectors.
template <class T>
constexpr int64_t padded(int64_t n) {
  return ceil_div(n, lanes<T>) * lanes<T>;
}

namespace detail {

// The types of a vector in a register (`type`) and of a vector in memory (`memory`). A vector in
// memory may begin at any element of an array. Both types use GCC's vector extension, which clang
// supports.
template <class T>
struct Register {
  typedef T type __attribute__((vector_size(vector_bytes)));
  typedef T memory __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};

// Calls f(0), ..., f(N - 1). Each argument is a compile-time constant, so that arrays that f
// indexes can be kept in registers.
template <int64_t N, class F>
[[gnu::always_inline]] inline void unroll(F f) {
  [&]<int64_t... I>(std::integer_sequence<int64_t, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int64_t, I>{}), ...);
  }
  (std::make_integer_sequence<int64_t, N>{});
}

// Multiplies an element of A by a vector of elements of B and adds the products to a vector of C,
// whose elements have type Sum.
template <class T>
struct MultiplyAdd {
  using Sum = T;
  [[gnu::always_inline]] static void apply(typename Register<T>::type& sum, T x,
                                           typename Register<T>::type row) {
    sum += x * row;
  }
};
template <class T>
using Sum = typename MultiplyAdd<T>::Sum;

// The default of gemm_block's parameter `visit`: does nothing.
struct VisitNothing {
  template <class V, class Vector>
  void operator()(int64_t /*p*/, V /*v*/, const Vector& /*row*/) const {}
};

// Computes a block of R rows by N vectors of C = op(A) B in R * N registers. Each of the k steps
// reads N vectors of B and R elements of A. If Add, adds the finished sums to C. A long sum that is
// split over several calls is thus a sum of partial sums, which is more accurate: in float32, 2^20
// equal terms that are added one by one give a total that is 1% too large. Calls visit(p, v, row)
// for each vector of B that it reads, where `row` is vector v of B's row p.
template <class T, bool TransA, bool Add, int64_t R, int64_t N, class Visit = VisitNothing>
inline void gemm_block(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, Sum<T>* c,
                       int64_t ldc, Visit visit = {}) {
  using Vector = typename Register<Sum<T>>::type;
  using Memory = typename Register<Sum<T>>::memory;
  auto at = [=](auto i) { return reinterpret_cast<Memory*>(c + i / N * ldc + i % N * lanes<T>); };
  Vector sum[R * N];
  unroll<R * N>([&](auto i) { sum[i] = Vector{}; });
  // With more steps per branch, products on Emerald Rapids are 2% faster.
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; ++p) {
    typename Register<T>::type row[N];
    unroll<N>([&](auto v) {
      row[v] = *reinterpret_cast<const typename Register<T>::memory*>(b + p * ldb + v * lanes<T>);
      visit(p, v, row[v]);
    });
    unroll<R>([&](auto r) {
      const T x = TransA ? a[p * lda + r] : a[r * lda + p];
      unroll<N>([&](auto v) { MultiplyAdd<T>::apply(sum[r * N + v], x, row[v]); });
    });
  }
  unroll<R * N>([&](auto i) { *at(i) = Add ? *at(i) + sum[i] : sum[i]; });
}

// Computes m rows by N vectors of C: blocks of R rows while they fit, then smaller blocks of at
// most 4 rows.
template <class T, bool TransA, bool Add, int64_t N, int64_t R>
inline void gemm_rows_of(int64_t m, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb,
                         Sum<T>* c, int64_t ldc) {
  int64_t i = 0;
  for (; i + R <= m; i += R)
    gemm_block<T, TransA, Add, R, N>(k, TransA ? a + i : a + i * lda, lda, b, ldb, c + i * ldc,
                                     ldc);
  if constexpr (R > 1)
    if (i < m)
      gemm_rows_of<T, TransA, Add, N, (R > 4 ? 4 : R / 2)>(m - i, k, TransA ? a + i : a + i * lda,
                                                           lda, b, ldb, c + i * ldc, ldc);
}

// Returns lanes a_0 b_0 a_1 b_1 ..., where a_i and b_i are the lanes of the first halves of a and b
// (Half 0) or of their second halves (Half 1).
template <size_t Half, class Vector, size_t... I>
inline Vector interleave(Vector a, Vector b, std::index_sequence<I...>) {
  constexpr size_t n = sizeof...(I);
  return __builtin_shufflevector(a, b, (Half * n / 2 + I / 2 + (I % 2) * n)...);
}

// Computes to = (factor * a)^T for a square of n = lanes<T> rows in registers. Rows of a from index
// `rows` on are not read and count as zeros. Each round interleaves row i with row i + n/2 into
// rows 2i and 2i + 1; after log2(n) rounds, rows have become columns.
template <class T>
inline void transpose_square(int64_t rows, T factor, const T* a, int64_t lda, T* to, int64_t ldt) {
  using Vector = typename Register<T>::type;
  using Memory = typename Register<T>::memory;
  constexpr int64_t n = lanes<T>;
  constexpr auto indices = std::make_index_sequence<static_cast<size_t>(n)>{};
  Vector x[n], y[n];
  for (int64_t i = 0; i < n; ++i)
    x[i] = i < rows ? factor * *reinterpret_cast<const Memory*>(a + i * lda) : Vector{};
  for (int64_t round = 1; round < n; round *= 2) {
    for (int64_t i = 0; i < n / 2; ++i) {
      y[2 * i] = interleave<0>(x[i], x[i + n / 2], indices);
      y[2 * i + 1] = interleave<1>(x[i], x[i + n / 2], indices);
    }
    for (int64_t i = 0; i < n; ++i) x[i] = y[i];
  }
  for (int64_t i = 0; i < n; ++i) *reinterpret_cast<Memory*>(to + i * ldt) = x[i];
}

// Returns the sum of a vector's lanes. Each step adds the vector to itself, rotated by half of the
// remaining lanes.
template <class Vector, size_t... I>
inline auto sum_lanes(Vector x, std::index_sequence<I...>) {
  constexpr size_t n = sizeof...(I);
  if constexpr (n >= 16) x += __builtin_shufflevector(x, x, ((I + 8) % n)...);
  if constexpr (n >= 8) x += __builtin_shufflevector(x, x, ((I + 4) % n)...);
  if constexpr (n >= 4) x += __builtin_shufflevector(x, x, ((I + 2) % n)...);
  return x[0] + x[1];
}

// Sums the lanes of each of N vectors, in the order of sum_lanes, and writes the N sums to `to`. N
// must be 1 or half of the lanes, and `to` must have space for a whole vector. May overwrite x.
// Each round adds the halves of each of two vectors and interleaves the two results in one vector.
template <int64_t N, class Vector, class T>
inline void sums_of_lanes(Vector* x, T* to) {
  constexpr int64_t n = lanes<T>;
  static_assert(N == 1 || N == n / 2);
  constexpr auto indices = std::make_index_sequence<static_cast<size_t>(n)>{};
  if constexpr (N == 1) {
    *to = sum_lanes(*x, indices);
  } else {
    for (int64_t half = N / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i)
        x[i] =
            interleave<0>(x[i], x[i + half], indices) + interleave<1>(x[i], x[i + half], indices);
    [&]<size_t... I>(std::index_sequence<I...>) {
      x[0] += __builtin_shufflevector(x[0], x[0], ((I + n / 2) % n)...);
    }
    (indices);
    *reinterpret_cast<typename Register<T>::memory*>(to) = x[0];
  }
}

}  // namespace detail

/// Returns the dot product of two rows of n elements. For short rows only: it accumulates in T,
/// which loses precision over long rows.
template <class T>
inline T dot(int64_t n, const T* a, const T* b) {
  using Memory = typename detail::Register<T>::memory;
  typename detail::Register<T>::type sum{};
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>)
    sum += *reinterpret_cast<const Memory*>(a + i) * *reinterpret_cast<const Memory*>(b + i);
  T rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return rest + detail::sum_lanes(sum, std::make_index_sequence<static_cast<size_t>(lanes<T>)>{});
}

/// Computes C = op(A) B, or C += op(A) B if Add: C (m, n), B (k, n), op(A) (m, k). If TransA, A is
/// stored as (k, m). n must be a multiple of lanes<T>. lda, ldb and ldc are row strides. If T is a
/// Pair (bfloat16_pairs.h), k counts Pairs, and C is float32.
template <class T, bool TransA, bool Add>
void tile_gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb,
               detail::Sum<T>* c, int64_t ldc) {
  int64_t j = 0;
  for (; j + 2 * lanes<T> <= n; j += 2 * lanes<T>)
    detail::gemm_rows_of<T, TransA, Add, 2, gemm_rows>(m, k, a, lda, b + j, ldb, c + j, ldc);
  if (j < n)
    detail::gemm_rows_of<T, TransA, Add, 1, gemm_rows>(m, k, a, lda, b + j, ldb, c + j, ldc);
}

/// Writes to[j][i] = factor * a[i][j] for i < m and j < n. n must be a multiple of lanes<T>. Each
/// row of `to` must have space for padded<T>(m) elements; elements after the m-th are set to zero.
template <class T>
void tile_transpose(int64_t m, int64_t n, T factor, const T* a, int64_t lda, T* to, int64_t ldt) {
  for (int64_t i = 0; i < m; i += lanes<T>)
    for (int64_t j = 0; j < n; j += lanes<T>)
      detail::transpose_square(m - i, factor, a + i * lda + j, lda, to + j * ldt + i, ldt);
}

}  // namespace gradus::kernel
