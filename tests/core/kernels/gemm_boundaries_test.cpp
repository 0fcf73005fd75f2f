// Products at the sizes where the kernels or the split into blocks change, against a triple loop in
// double: steps of rows, columns and depth, strips of rows, vector tails, the threads' shares. In
// bfloat16 the operands are bfloat16 already, so that rounding them changes nothing.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/compressed.h"
#include "gradus/core/runtime/modes.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/random.h"

namespace gemm_boundaries_test {

using namespace gradus;
using namespace gradus::core;

namespace {

struct Size {
  int64_t m, n, k;
};

template <class T>
std::vector<T> random_values(int64_t n, uint64_t seed) {
  std::vector<T> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<T>(uniform_float(philox({seed, 0}, i / 4)[i % 4]) - 0.5f);
  return v;
}

template <class T>
std::vector<T> operand(int64_t n, uint64_t seed, bool bfloat16) {
  std::vector<T> v = random_values<T>(n, seed);
  for (T& x : v)
    if (bfloat16) x = kernel::float_from_bfloat16(kernel::bfloat16_from(static_cast<float>(x)));
  return v;
}

// A (m, k), B (k, n) and the reference product.
template <class T>
struct Problem {
  Size s;
  std::vector<T> a, b, start;  // start: C before the product
  std::vector<double> product, limit;

  Problem(const Size& size, bool bfloat16)
      : s(size),
        a(operand<T>(s.m * s.k, 1, bfloat16)),
        b(operand<T>(s.k * s.n, 2, bfloat16)),
        start(random_values<T>(s.m * s.n, 3)),
        product(start.size()),
        limit(start.size()) {
    const double eps = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
    std::vector<double> row(static_cast<size_t>(s.n)), sizes(row.size());
    for (size_t i = 0, at = 0; i < static_cast<size_t>(s.m); ++i) {
      std::fill(row.begin(), row.end(), 0.0), std::fill(sizes.begin(), sizes.end(), 1.0);
      for (size_t p = 0; p < static_cast<size_t>(s.k); ++p) {
        const double x = static_cast<double>(a[i * static_cast<size_t>(s.k) + p]);
        const T* from = b.data() + p * row.size();
        for (size_t j = 0; j < row.size(); ++j) {
          const double term = x * static_cast<double>(from[j]);
          row[j] += term, sizes[j] += std::abs(term);
        }
      }
      for (size_t j = 0; j < row.size(); ++j, ++at)
        product[at] = row[j], limit[at] = eps * sizes[j];
    }
  }

  static std::vector<T> transposed(const std::vector<T>& x, int64_t rows, int64_t cols) {
    std::vector<T> y(x.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        y[static_cast<size_t>(j * rows + i)] = x[static_cast<size_t>(i * cols + j)];
    return y;
  }
};

constexpr int64_t pad = 3;  // elements between the rows of C, which must not change

// Runs one product. Returns whether C is right, its padding is unchanged and, with a callback, each
// element is passed on once in its final state. With 0 `threads` it runs gemm_serial.
template <class T>
bool is_right(const Problem<T>& problem, const blas::Product<T>& operands, bool add, int threads,
              bool call_back) {
  const auto& [m, n, k] = problem.s;
  const auto index = [ldc = n + pad](int64_t i, int64_t j) {
    return static_cast<size_t>(i * ldc + j);
  };
  std::vector<T> c(static_cast<size_t>(m * (n + pad)), T{77}), seen = c;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      c[index(i, j)] = add ? problem.start[static_cast<size_t>(i * n + j)]
                           : std::numeric_limits<T>::quiet_NaN();  // C must not be read
  std::vector<char> calls(c.size(), 0);
  blas::Product<T> g = operands;
  g.m = m, g.n = n, g.k = k, g.c = c.data(), g.ldc = n + pad, g.add = add;
  const auto done = [&](const blas::Tile& tile) {
    for (int64_t i = tile.row; i < tile.row + tile.rows; ++i)
      for (int64_t j = tile.col; j < tile.col + tile.cols; ++j)
        ++calls[index(i, j)], seen[index(i, j)] = c[index(i, j)];
  };
  if (threads == 0) {
    blas::gemm_serial(g);
  } else {
    set_num_threads(threads);
    blas::gemm(g, call_back ? blas::TileDone(done) : blas::TileDone());
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const size_t at = static_cast<size_t>(i * n + j);
      const double want = problem.product[at] + (add ? static_cast<double>(problem.start[at]) : 0);
      const T got = c[index(i, j)];
      if (!(std::abs(static_cast<double>(got) - want) <= problem.limit[at])) return false;
      if (call_back && (calls[index(i, j)] != 1 || seen[index(i, j)] != got)) return false;
    }
    for (int64_t j = n; j < n + pad; ++j)
      if (c[index(i, j)] != T{77} || calls[index(i, j)] != 0) return false;
  }
  return true;
}

// Checks all transposes, beta 0 and 1, one thread and several, with and without a callback.
template <class T>
void check_size(const Size& s, bool bfloat16) {
  const Bfloat16Products products(bfloat16);
  const Problem<T> problem(s, bfloat16);
  const auto at = Problem<T>::transposed(problem.a, s.m, s.k);
  const auto bt = Problem<T>::transposed(problem.b, s.k, s.n);
  for (int bits = 0; bits < 8; ++bits) {
    const bool trans_a = bits & 1, trans_b = bits & 2, add = bits & 4;
    const blas::Product<T> operands{.trans_a = trans_a,
                                    .trans_b = trans_b,
                                    .a = (trans_a ? at : problem.a).data(),
                                    .lda = trans_a ? s.m : s.k,
                                    .b = (trans_b ? bt : problem.b).data(),
                                    .ldb = trans_b ? s.k : s.n};
    for (int threads : {0, 1, 2, 3}) {
      INFO(sizeof(T) * 8 << " bits" << (bfloat16 ? ", bfloat16" : "") << ", (m, n, k) = (" << s.m
                         << ", " << s.n << ", " << s.k << "), transposed " << trans_a << trans_b
                         << ", add " << add << ", threads " << threads);
      CHECK(is_right(problem, operands, add, threads, threads > 0));
    }
  }
}

void check_sizes(const std::vector<Size>& sizes) {
  const int before = num_threads();
  for (const Size& s : sizes)
    check_size<float>(s, false), check_size<float>(s, true), check_size<double>(s, false);
  set_num_threads(before);
}

}  // namespace

TEST_CASE("gemm: right for every number of rows in a block, and at the ends of vectors and panels",
          "[blas]") {
  std::vector<Size> sizes;
  for (int64_t m = 1; m <= 17; ++m) sizes.push_back({m, 37, 19});
  for (int64_t n :
       {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65})
    sizes.push_back({11, n, 21});
  for (int64_t k : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33}) sizes.push_back({13, 35, k});
  check_sizes(sizes);
}

TEST_CASE("gemm: right at the boundaries of steps of depth and of columns", "[blas]") {
  std::vector<Size> sizes;
  for (int64_t k : {255, 256, 257, 271, 511, 512, 513, 769, 1023, 1024, 1025})
    sizes.push_back({9, 19, k});
  for (int64_t n : {1023, 1024, 1025, 1040, 1057, 2049}) sizes.push_back({9, n, 11});
  sizes.push_back({11, 1061, 263});  // steps of both
  check_sizes(sizes);
}

// A step has 512 KB / 4 / d rows, rounded down to blocks of 8, where d is the depth of a step
// rounded up to vectors of 16; in bfloat16 half of d counts. That is seldom a multiple of 64, the
// rows of a strip, which are passed on at a time. One thread takes all rows; several take shares in
// multiples of 32.
TEST_CASE("gemm: right where a step of rows is not a multiple of a strip", "[blas]") {
  check_sizes({{512, 3, 256},  // the step itself
               {513, 3, 256},  // depth 256 gives steps of 512 rows
               {513, 3, 512},
               {1025, 3, 256},    // in bfloat16
               {625, 3, 208},     // 624 = 9 * 64 + 48
               {1249, 3, 200},    // twice 624, and one
               {745, 2, 513},     // depth in steps of 176: 744 = 11 * 64 + 40
               {905, 3, 260},     // in steps of 144: 904 = 14 * 64 + 8
               {1361, 3, 96},     // 1360 = 21 * 64 + 16
               {1639, 5, 80},     // 1632 = 25 * 64 + 32
               {547, 33, 240}});  // 544 = 8 * 64 + 32, and more than one panel
}

TEST_CASE("gemm: right at the boundaries of the threads' shares", "[blas]") {
  check_sizes({{64, 64, 127},
               {64, 64, 128},
               {64, 64, 129},  // from this size on threads share the work
               {70, 127, 67},
               {70, 128, 67},
               {70, 129, 67},  // shared by columns or by rows
               {70, 191, 41},
               {70, 192, 41},
               {70, 193, 41},  // shares of three threads
               {31, 300, 59},
               {33, 300, 59},
               {300, 31, 59},
               {300, 33, 59},
               {97, 193, 37},
               {193, 97, 37},
               {769, 11, 67},
               {11, 769, 67}});
}

TEST_CASE("gemm: a matrix times a vector is right over several blocks and shares", "[blas]") {
  std::vector<Size> sizes;
  for (int64_t k : {1, 4095, 4096, 4097, 8193})
    for (int64_t n : {1, 15, 16, 17, 33}) sizes.push_back({1, n, k}), sizes.push_back({n, 1, k});
  check_sizes(sizes);
}

}  // namespace gemm_boundaries_test
