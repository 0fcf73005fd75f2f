// Which kernel is chosen for a product, by shape, dtype and processor.

#include "gradus/core/kernels/products/product.h"

#include <catch2/catch.hpp>
#include <vector>

namespace product_test {

using namespace gradus;
using namespace gradus::kernel;

namespace {

constexpr int64_t avx2 = 32, avx512 = 64;  // bytes of a vector

ProductShape matrices(int64_t m, int64_t n, int64_t k) {
  return {.m = m, .n = n, .k = k, .lda = k, .ldb = n};
}

ProductShape with_transposes(ProductShape p, bool trans_a, bool trans_b) {
  p.trans_a = trans_a, p.trans_b = trans_b;
  p.lda = trans_a ? p.m : p.k, p.ldb = trans_b ? p.k : p.n;
  return p;
}

}  // namespace

TEST_CASE("choose_product: matrices", "[product]") {
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const int64_t size : {2, 16, 31, 32, 300, 5000}) {
        const ProductShape p = with_transposes(matrices(size, size + 1, size), trans_a, trans_b);
        if (p.dots_with_b()) continue;
        CHECK(choose_product(p, float32, avx512) == ProductKernel::panel);
        CHECK(choose_product(p, float32, avx2) ==
              (p.n <= 32 ? ProductKernel::panel : ProductKernel::blas));
        CHECK(choose_product(p, float64, avx512) == ProductKernel::blas);
        CHECK(choose_product(p, float64, avx2) == ProductKernel::blas);
      }
  CHECK(choose_product(matrices(5, 6, 0), float32) == ProductKernel::zero);
  CHECK(choose_product(matrices(1, 1, 0), float64) == ProductKernel::zero);
}

TEST_CASE("choose_product: rounded to bfloat16, float32 matrices alone", "[product]") {
  ProductShape p = matrices(5, 6, 7);
  p.rounded = true;
  CHECK(choose_product(p, float32, avx512) ==
        (bfloat16_products ? ProductKernel::bfloat16_panel : ProductKernel::panel));
  CHECK(choose_product(p, float64, avx512) == ProductKernel::blas);
  p.k = 0;
  CHECK(choose_product(p, float32, avx512) == ProductKernel::zero);
  p = with_transposes(matrices(1, 40, 30), false, true);
  p.rounded = true;
  CHECK(choose_product(p, float32, avx512) == ProductKernel::row_dots);
}

TEST_CASE("choose_product: row dots for few rows and for a vector if both are read along rows",
          "[product]") {
  const auto is_row_dots = [](const ProductShape& p) {
    return choose_product(p, float32, avx512) == ProductKernel::row_dots &&
           choose_product(p, float64, avx2) == ProductKernel::row_dots;
  };
  const ProductShape row = matrices(1, 40, 30), column = matrices(40, 1, 30);
  CHECK(is_row_dots(with_transposes(row, false, true)));
  CHECK(is_row_dots(with_transposes(row, true, true)));
  CHECK(is_row_dots(with_transposes(matrices(few_rows, 40, 30), false, true)));
  CHECK_FALSE(is_row_dots(with_transposes(matrices(few_rows + 1, 40, 30), false, true)));
  CHECK_FALSE(is_row_dots(with_transposes(matrices(2, 40, 30), true, true)));
  CHECK_FALSE(is_row_dots(with_transposes(matrices(2, 40, 30), false, false)));
  CHECK_FALSE(is_row_dots(with_transposes(row, false, false)));
  CHECK_FALSE(is_row_dots(with_transposes(row, true, false)));
  CHECK(is_row_dots(with_transposes(column, false, false)));
  CHECK(is_row_dots(with_transposes(column, false, true)));
  CHECK_FALSE(is_row_dots(with_transposes(column, true, false)));
  ProductShape strided = with_transposes(row, true, true);  // a column of a wider matrix
  strided.lda = 7;
  CHECK_FALSE(is_row_dots(strided));
  strided = column;
  strided.ldb = 7;
  CHECK_FALSE(is_row_dots(strided));
}

TEST_CASE("choose_product: attention, convolution, recurrent layers and compressed weights",
          "[product]") {
  const auto choose = [](const ProductShape& p) { return choose_product(p, float32, avx2); };
  ProductShape tiles{.operands = ProductOperands::tiles, .m = 3, .n = 100, .k = 64};
  CHECK(choose(tiles) == ProductKernel::row_dots);
  tiles.k = 0;
  CHECK(choose(tiles) == ProductKernel::tile);
  tiles.k = 64, tiles.recomputed = true;
  CHECK(choose(tiles) == ProductKernel::tile);
  tiles.recomputed = false, tiles.m = few_queries;
  CHECK(choose(tiles) == ProductKernel::tile);

  ProductShape windows{.operands = ProductOperands::windows, .m = 900, .n = 64, .k = 27};
  CHECK(choose(windows) == ProductKernel::window);
  windows.disjoint = true;
  CHECK(choose(windows) == ProductKernel::blas);
  CHECK(choose_product(windows, float32, avx512) == ProductKernel::panel);

  ProductShape compressed{
      .operands = ProductOperands::compressed, .m = few_compressed_rows, .n = 100, .k = 64};
  CHECK(choose(compressed) == ProductKernel::compressed_dots);
  compressed.m = few_compressed_rows + 1;
  CHECK(choose(compressed) == ProductKernel::blas);

  CHECK(choose({.operands = ProductOperands::packed}) == ProductKernel::packed_panel);
}

}  // namespace product_test
