// gemm against a triple loop in double.

#include "gradus/core/kernels/products/blas.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <regex>
#include <thread>
#include <vector>

#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/random.h"

namespace blas_test {

extern "C" __attribute__((weak)) void openblas_set_num_threads(int);

using namespace gradus;
using namespace gradus::core;

namespace {

template <class T>
std::vector<T> random_values(int64_t n, uint64_t seed) {
  std::vector<T> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<T>(uniform_float(philox({seed, 0}, i)[0]) - 0.5f);
  return v;
}

struct Case {
  bool trans_a, trans_b;
  int64_t m, n, k;
  bool add = false;
  int64_t pad = 0;  // elements between the rows of C
  bool lower = false;
};

// op(A) op(B) in row-major order.
template <class T>
blas::Product<T> product(const Case& t, const std::vector<T>& a, const std::vector<T>& b,
                         std::vector<T>& c) {
  return {.trans_a = t.trans_a,
          .trans_b = t.trans_b,
          .m = t.m,
          .n = t.n,
          .k = t.k,
          .a = a.data(),
          .lda = (t.trans_a ? t.m : t.k) + t.pad,
          .b = b.data(),
          .ldb = (t.trans_b ? t.k : t.n) + t.pad,
          .c = c.data(),
          .ldc = t.n + t.pad,
          .add = t.add,
          .lower = t.lower};
}

// The largest error of gemm in units of the rounding error of k additions; -1 if it wrote between
// the rows of C.
template <class T>
double error_of(const Case& t, bool serial) {
  const int64_t lda = (t.trans_a ? t.m : t.k) + t.pad, ldb = (t.trans_b ? t.k : t.n) + t.pad;
  const int64_t ldc = t.n + t.pad;
  const auto a = random_values<T>((t.trans_a ? t.k : t.m) * lda, 1);
  const auto b = random_values<T>((t.trans_b ? t.n : t.k) * ldb, 2);
  auto c = random_values<T>(t.m * ldc, 3);
  const auto before = c;
  if (!t.add) {  // C must not be read
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j)
        c[static_cast<size_t>(i * ldc + j)] = std::numeric_limits<T>::quiet_NaN();
  }
  if (serial)
    blas::gemm_serial(product(t, a, b, c));
  else
    blas::gemm(product(t, a, b, c));
  double worst = 0;
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < ldc; ++j) {
      const size_t at = static_cast<size_t>(i * ldc + j);
      if (j >= t.n) {
        if (c[at] != before[at]) return -1;
        continue;
      }
      if (t.lower && j > i) continue;
      double sum = 0, size = 1;
      for (int64_t p = 0; p < t.k; ++p) {
        const double x = a[static_cast<size_t>(t.trans_a ? p * lda + i : i * lda + p)];
        const double y = b[static_cast<size_t>(t.trans_b ? j * ldb + p : p * ldb + j)];
        sum += x * y;
        size += std::abs(x * y);
      }
      const double want = sum + (t.add ? static_cast<double>(before[at]) : 0.0);
      const double error = std::abs(static_cast<double>(c[at]) - want) /
                           (size * static_cast<double>(std::numeric_limits<T>::epsilon()));
      if (!(error <= worst)) worst = error;  // catches NaN too
    }
  }
  return worst;
}

// The last three exceed the block sizes of depth, rows and columns.
const int64_t sizes[][3] = {{1, 1, 1},      {1, 7, 5},      {7, 1, 5},      {5, 7, 1},
                            {1, 1000, 300}, {1000, 1, 300}, {1, 130, 9001}, {3, 5, 200},
                            {64, 64, 64},   {129, 65, 33},  {301, 203, 97}, {65, 400, 128},
                            {16, 16, 4000}, {33, 33, 600},  {523, 40, 259}, {9, 1060, 31}};

}  // namespace

TEST_CASE("gemm agrees with a triple loop", "[blas]") {
  for (const auto& s : sizes) {
    for (int bits = 0; bits < 8; ++bits) {
      const bool add = bits & 4;
      Case t{(bits & 1) != 0, (bits & 2) != 0, s[0], s[1], s[2], add, add ? 3 : 0};
      CAPTURE(t.trans_a, t.trans_b, t.m, t.n, t.k, t.add);
      for (const auto& [serial, lower] :
           {std::pair{false, false}, {true, false}, {true, t.m >= t.n}}) {
        t.lower = lower;
        CAPTURE(serial, t.lower);
        const double f = error_of<float>(t, serial), d = error_of<double>(t, serial);
        CHECK((f >= 0 && f < 8));
        CHECK((d >= 0 && d < 8));
      }
    }
  }
}

TEST_CASE("gemm_serial: a lower triangle of more rows than the panel kernel takes in a step",
          "[blas]") {
  const double error = error_of<float>({false, true, 530, 525, 250, true, 0, true}, true);
  CHECK((error >= 0 && error < 8));
}

TEST_CASE("gemm accepts empty matrices, and an empty sum gives zeros", "[blas]") {
  std::vector<float> c{1, 2, 3, 4, 5, 6};
  const std::vector<float> a{0};
  blas::gemm(product({false, false, 0, 3, 2}, a, a, c));
  blas::gemm(product({false, false, 2, 0, 2}, a, a, c));
  blas::gemm(product({false, false, 2, 3, 0, true}, a, a, c));
  CHECK(c == std::vector<float>{1, 2, 3, 4, 5, 6});
  blas::gemm(product({false, false, 2, 3, 0}, a, a, c));
  CHECK(c == std::vector<float>(6, 0.0f));
}

TEST_CASE("gemm with an empty sum calls back once; gemm_serial clears C or leaves it", "[blas]") {
  const std::vector<float> a{0}, before{1, 2, 3, 4, 5, 6};
  std::vector<float> c = before;
  std::vector<blas::Tile> tiles;
  blas::gemm(product({false, false, 2, 3, 0}, a, a, c), [&](const blas::Tile& tile) {
    tiles.push_back(tile);
    CHECK(c == std::vector<float>(6, 0.0f));
  });
  REQUIRE(tiles.size() == 1);
  CHECK((tiles[0].row == 0 && tiles[0].rows == 2 && tiles[0].col == 0 && tiles[0].cols == 3));
  c = before;
  blas::gemm_serial(product({false, false, 2, 3, 0, true}, a, a, c));
  CHECK(c == before);
  blas::gemm_serial(product({false, false, 2, 3, 0}, a, a, c));
  CHECK(c == std::vector<float>(6, 0.0f));
}

TEST_CASE("gemm calls back once for each element of C, when it is final", "[blas]") {
  for (const auto& s : sizes) {
    const Case t{false, true, s[0], s[1], s[2]};
    const auto a = random_values<float>(t.m * t.k, 1), b = random_values<float>(t.n * t.k, 2);
    std::vector<float> c(static_cast<size_t>(t.m * t.n)), seen(c.size(), 0.0f);
    std::vector<int> calls(c.size());
    blas::gemm(product(t, a, b, c), [&](const blas::Tile& tile) {
      for (int64_t i = tile.row; i < tile.row + tile.rows; ++i)
        for (int64_t j = tile.col; j < tile.col + tile.cols; ++j) {
          const auto at = static_cast<size_t>(i * t.n + j);
          ++calls[at];
          seen[at] = c[at];
        }
    });
    CAPTURE(t.m, t.n, t.k);
    CHECK(calls == std::vector<int>(c.size(), 1));
    CHECK(seen == c);
  }
}

TEST_CASE("gemm refuses bad sizes", "[blas]") {
  std::vector<float> v(64);
  auto run = [&](int64_t m, int64_t n, int64_t k, int64_t lda) {
    blas::Product<float> p = product({false, false, m, n, k}, v, v, v);
    p.lda = lda;
    blas::gemm(p);
  };
  CHECK_THROWS_WITH(run(-1, 2, 2, 2), "gemm: expected sizes (m, n, k) >= 0, got (-1, 2, 2)");
  CHECK_THROWS_WITH(run(2, 2, 4, 3), Catch::Contains("gemm: row stride of A is 3"));
  CHECK_THROWS_WITH(run(int64_t{1} << 31, 2, 2, 2), Catch::Contains("exceed BLAS's limit"));
  CHECK_NOTHROW(run(1, 2, 2, 0));  // the stride of a single row is not used
  CHECK_NOTHROW(run(INT32_MAX, 0, 2, 2));
  CHECK_THROWS_WITH(run(int64_t{INT32_MAX} + 1, 0, 2, 2), Catch::Contains("exceed BLAS's limit"));
  std::vector<float> c(6);
  const std::vector<float> a(6), b(6);
  CHECK_THROWS_WITH(blas::gemm(product({false, false, 3, 2, 2, false, 0, true}, a, b, c)),
                    "gemm: lower is for gemm_serial only");
  CHECK_THROWS_WITH(blas::gemm_serial(product({false, false, 2, 3, 2, false, 0, true}, a, b, c)),
                    "gemm: lower: expected m >= n, got 2 and 3");
}

TEMPLATE_TEST_CASE("gemm gives the same bits on one and two threads", "[blas]", float, double) {
  const int before = num_threads();
  for (const auto& s : sizes) {
    for (int bits = 0; bits < 4; ++bits) {
      const Case t{(bits & 1) != 0, (bits & 2) != 0, s[0], s[1], s[2]};
      auto a = random_values<TestType>(t.m * t.k, 1);
      const auto b = random_values<TestType>(t.k * t.n, 2);
      for (TestType& x : a) x /= 3;  // so that sums are rounded in float64 too
      std::vector<TestType> one(static_cast<size_t>(t.m * t.n)), two = one;
      set_num_threads(1);
      blas::gemm(product(t, a, b, one));
      set_num_threads(2);
      blas::gemm(product(t, a, b, two));
      CHECK(one == two);
    }
  }
  set_num_threads(before);
}

TEST_CASE("gemm gives the same bits whatever OpenBLAS's number of threads", "[blas]") {
  for (const int64_t n : {130, 300, 517, 900}) {
    const Case t{false, false, n, n + 7, n};
    auto a = random_values<double>(n * n, 1), b = random_values<double>(n * (n + 7), 2);
    for (double& x : a) x /= 3;  // so that sums are rounded: products of 24-bit values are exact
    std::vector<double> expected(static_cast<size_t>(n * (n + 7))), c = expected;
    blas::gemm(product(t, a, b, expected));
    for (const int threads : {2, 4, 1}) {
      if (openblas_set_num_threads) openblas_set_num_threads(threads);
      blas::gemm(product(t, a, b, c));
      CHECK(c == expected);
    }
  }
}

TEST_CASE("gemm works inside parallel regions and on the user's own threads", "[blas]") {
  const Case t{false, true, 129, 65, 33};
  std::vector<double> errors(8, 99);
  parallel_for(8, 1, [&](int64_t i, int64_t) {
    errors[static_cast<size_t>(i)] = error_of<float>(t, i % 2 == 0);
  });
  for (double e : errors) CHECK((e >= 0 && e < 8));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      errors[i] = error_of<float>({false, true, 301, 203, 97}, false);
    });
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i) CHECK((errors[i] >= 0 && errors[i] < 8));
}

TEST_CASE("describe names the BLAS and its kernels", "[blas]") {
  const std::string text = blas::describe();
  CAPTURE(text);
  if (text.starts_with("OpenBLAS"))
    CHECK(std::regex_match(text, std::regex("OpenBLAS [0-9.]+\\S* \\((serial|pthread|openmp)\\), "
                                            "kernels \\w+: [^;]+(; OpenBLAS had taken \\w+)?"
                                            "(; float32 products by a kernel of our own)?"
                                            "; (no )?bfloat16 products.*")));
  else
    CHECK(text.starts_with("CBLAS, not OpenBLAS"));
  const bool own = text.find("; float32 products by a kernel of our own") != std::string::npos;
  CHECK(own == (kernel::vector_bytes == 64));
  const bool without = text.find("; no bfloat16 products") != std::string::npos;
  CHECK(without == !kernel::bfloat16_products);
  // "OpenBLAS 0.3.21 (pthread), kernels SkylakeX: the widest for this CPU; OpenBLAS had taken
  // Prescott"
  const size_t had = text.find("OpenBLAS had taken ");
  if (had == std::string::npos) return;
  const size_t name = had + std::string("OpenBLAS had taken ").size();
  const std::string before = text.substr(name, text.find(';', name) - name);
  CHECK(text.find("kernels " + before + ':') == std::string::npos);
}

}  // namespace blas_test
