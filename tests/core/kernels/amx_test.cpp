// Products in the processor's tile registers, against sums in double. Without AMX there is nothing
// to test.

#include "gradus/core/kernels/products/amx.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "gradus/core/kernels/products/compressed.h"
#include "gradus/core/runtime/random.h"

namespace amx_test {

using namespace gradus;
using namespace gradus::core;

namespace {

constexpr float untouched = 1e30f;
constexpr int64_t margin = 5;  // elements after each row of a matrix

// A matrix of pairs, and its float32 values with the pairs side by side. NaN follows each row.
struct Pairs {
  int64_t cols, stride = cols + margin;
  std::vector<uint32_t> data;
  std::vector<float> values;

  Pairs(int64_t rows, int64_t cols_, uint64_t seed)
      : cols(cols_),
        data(static_cast<size_t>(rows * stride), 0x7fc07fc0u),
        values(data.size() * 2) {
    for (size_t i = 0; i < data.size(); ++i) {
      const auto at = static_cast<int64_t>(i) % stride;
      const std::array<uint32_t, 4> bits = philox({seed, 0}, i);
      const uint16_t low = kernel::bfloat16_from(uniform_float(bits[0]) - 0.5f);
      const uint16_t high = kernel::bfloat16_from(uniform_float(bits[1]) - 0.5f);
      if (at < cols) data[i] = low | static_cast<uint32_t>(high) << 16;
      values[2 * i] = kernel::float_from_bfloat16(low);
      values[2 * i + 1] = kernel::float_from_bfloat16(high);
    }
  }
  double at(int64_t row, int64_t col, int64_t half) const {
    return values[static_cast<size_t>(2 * (row * stride + col) + half)];
  }
};

// Returns C (m, n) with row stride n + margin.
std::vector<float> product(bool add, int64_t m, int64_t n, int64_t k, const Pairs& a,
                           const Pairs& b) {
  std::vector<float> c(static_cast<size_t>(m * (n + margin)), untouched);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      c[static_cast<size_t>(i * (n + margin) + j)] = static_cast<float>(i - j);
  kernel::TileRegisters tiles;
  tiles.multiply(add, m, n, k, a.data.data(), a.stride, b.data.data(), b.stride, c.data(),
                 n + margin);
  return c;
}

}  // namespace

TEST_CASE("amx: products of any number of rows and pairs, of 16 columns or more") {
  if (!kernel::has_amx()) return;
  for (const int64_t k : {1, 15, 16, 17, 32, 33, 50}) {
    const Pairs a(70, k, 1), b(k, 64, 2);
    const std::vector<float> all = product(true, 70, 64, k, a, b);
    for (const int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 70})
      for (const int64_t n : {16, 32, 48, 64})
        for (const bool add : {false, true}) {
          INFO(m << " x " << n << " x " << k << " pairs, add " << add);
          const std::vector<float> c = product(add, m, n, k, a, b);
          double error = 0;
          int64_t overwritten = 0, other_bits = 0;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double expected = add ? static_cast<double>(i - j) : 0;
              for (int64_t p = 0; p < k; ++p)
                expected += a.at(i, p, 0) * b.at(p, j, 0) + a.at(i, p, 1) * b.at(p, j, 1);
              const float got = c[static_cast<size_t>(i * (n + margin) + j)];
              error = std::max(error, std::abs(expected - static_cast<double>(got)));
              other_bits += add && got != all[static_cast<size_t>(i * (64 + margin) + j)];
            }
            for (int64_t j = n; j < n + margin; ++j)
              overwritten += c[static_cast<size_t>(i * (n + margin) + j)] != untouched;
          }
          CHECK(error < 2e-5);
          CHECK(overwritten == 0);
          CHECK(other_bits == 0);
        }
  }
}

}  // namespace amx_test
