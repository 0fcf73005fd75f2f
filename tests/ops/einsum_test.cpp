// Values and edge cases of einsum, diag and allclose.

#include <catch2/catch.hpp>
#include <limits>

#include "gradus/core/core.h"
#include "tests/ops/value_checks.h"

namespace einsum_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("einsum: worked examples", "[einsum]") {
  const Tensor x = matrix(), y = tensor({{1, 2}, {3, 4}, {5, 6}}, float64);
  check_values(einsum("ij,jk->ik", {x, y}), {2, 2}, {10, 12, 7.5, 11});
  check_values(einsum("ij,ij->i", {x, x}), {2}, {14, 17.25});
  check_values(einsum("ij->j", {x}), {3}, {1.5, 2, 2});
  check_values(einsum("ii", {tensor({{1, 2}, {3, 4}})}), {}, {5});
  check_values(einsum("i,j->ji", {tensor({1, 2}), tensor({3, 4})}), {2, 2}, {3, 6, 4, 8});
  const Tensor four = arange(0, 16, 1, float64).reshape({2, 2, 2, 2});  // i j k l: 8i + 4j + 2k + l
  check_values(einsum("iijj->ij", {four}), {2, 2}, {0, 3, 12, 15});
  check_values(einsum("iijj", {four}), {}, {30});
  check_values(einsum("ijji->ij", {four}), {2, 2}, {0, 6, 9, 15});
  check_values(einsum("iii->i", {four[1]}), {2}, {8, 15});
  // Capitals come before small letters.
  CHECK(einsum("bA,Ab,cB", {zeros({3, 2}), zeros({2, 3}), zeros({2, 4})}).shape() == Shape{4, 2});
  CHECK(einsum("aB", {zeros({2, 3})}).shape() == Shape{3, 2});
}

TEST_CASE("einsum: sizes 0 and 1, values that are not finite, integers", "[einsum]") {
  check_values(einsum("ij,jk->ik", {zeros({2, 0}), zeros({0, 3})}), {2, 3}, {0, 0, 0, 0, 0, 0});
  check_values(einsum("ij->", {zeros({0, 3})}), {}, {0});
  CHECK(einsum("ij,jk", {zeros({0, 3}), zeros({3, 2})}).shape() == Shape{0, 2});
  CHECK(einsum("ij,jk", {zeros({2, 1}), zeros({0, 3})}).shape() == Shape{2, 3});
  CHECK(einsum("bi,bj->bij", {zeros({1, 1}), zeros({1, 1})}).shape() == Shape{1, 1, 1});
  CHECK(einsum("...i,...i->...", {zeros({2, 1, 3}), zeros({5, 3})}).shape() == Shape{2, 5});
  CHECK(einsum("", {scalar(3)}).item() == 3);
  CHECK(einsum(",", {scalar(3), scalar(2)}).item() == 6);
  check_values(einsum("i,i->i", {tensor({inf, NaN, 2}), tensor({2, 1, -inf})}), {3},
               {inf, NaN, -inf});
  CHECK(einsum("ij->ji", {tensor({{1, 2}, {3, 4}}, int64)}).to_vector<int64_t>() ==
        Ints{1, 3, 2, 4});
  CHECK(einsum("ii", {tensor({{1, 2}, {3, 4}}, int64)}).item<int64_t>() == 5);
  CHECK(einsum("abcd,efgh", {ones({2, 1, 2, 3}), ones({2, 2, 1, 2})}).shape() ==
        Shape{2, 1, 2, 3, 2, 2, 1, 2});
  CHECK(einsum("abcd,efgh->", {ones({2, 2, 2, 2}), ones({2, 2, 2, 2})}).item() == 256);
  CHECK(einsum("abcd,efgh->dcbahgfe", {ones({2, 2, 2, 2}), ones({2, 2, 2, 2})}).numel() == 256);
  CHECK(einsum("abcdefgh->hgfedcba", {zeros({1, 2, 1, 3, 1, 1, 2, 1})}).shape() ==
        Shape{1, 2, 1, 1, 3, 1, 2, 1});
}

TEST_CASE("einsum: strided and expanded tensors, one tensor twice", "[einsum]") {
  manual_seed(3);
  const Tensor x = strided({3, 4}), y = randn({1, 5}, float64).expand({4, 5});
  const Tensor z = einsum("ij,jk->ki", {x, y});
  CHECK(allclose(z, matmul(x.contiguous(), y.contiguous()).mT()));
  check_gradients(x, [](const Tensor& t) { return einsum("ij,kj->ik", {t, t}); });
  check_gradients(x, [&](const Tensor& t) { return einsum("ij,jk,ij->k", {t, y, t * t}); });
}

TEST_CASE("diag and diagonal: dtypes, views", "[einsum]") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, int64);
  CHECK(diag(x).to_vector<int64_t>() == Ints{1, 5});
  CHECK(diag(x, 1).to_vector<int64_t>() == Ints{2, 6});
  CHECK(diag(x, -1).to_vector<int64_t>() == Ints{4});
  CHECK(diag(x, INT64_MIN).shape() == Shape{0});
  CHECK(diag(x, INT64_MAX).shape() == Shape{0});
  CHECK(diag(diag(x), -1).to_vector<int64_t>() == Ints{0, 0, 0, 1, 0, 0, 0, 5, 0});
  CHECK(diag(tensor({true})).dtype() == boolean);
  CHECK(diag(zeros({0}), 2).shape() == Shape{2, 2});
  CHECK(diagonal(zeros({2, 3, 4}), 0, -1, 0).shape() == Shape{3, 2});
  const Tensor square_matrix = zeros({3, 3});
  diagonal(square_matrix).fill_(1);
  CHECK(allclose(square_matrix, eye(3)));
  check_values(outer(tensor({1, 2}), tensor({3, inf})), {2, 2}, {3, inf, 6, inf});
  CHECK(outer(tensor({1, 2}, int64), tensor({3}, int64)).to_vector<int64_t>() == Ints{3, 6});
}

TEST_CASE("allclose: tolerances, NaN, infinities, dtypes", "[einsum]") {
  const Tensor one = tensor({1}, float64);
  CHECK(allclose(one, one + 1e-5));
  CHECK_FALSE(allclose(one, one + 1.1e-5));
  CHECK_FALSE(allclose(one, one + 1e-6, {.rtol = 0}));
  CHECK(allclose(one, one + 1e-6, {.rtol = 0, .atol = 2e-6}));
  CHECK(allclose(tensor({100}), tensor({101}), {.rtol = 0.00999}));  // relative to b
  CHECK_FALSE(allclose(tensor({101}), tensor({100}), {.rtol = 0.00999}));
  CHECK_FALSE(allclose(tensor({NaN}), tensor({NaN})));
  CHECK(allclose(tensor({NaN}), tensor({NaN}), {.equal_nan = true}));
  CHECK_FALSE(allclose(tensor({NaN}), tensor({1}), {.rtol = inf, .equal_nan = true}));
  CHECK(allclose(tensor({inf, -inf}), tensor({inf, -inf}), {.rtol = 0, .atol = 0}));
  CHECK_FALSE(allclose(tensor({1}), tensor({inf})));
  CHECK_FALSE(allclose(tensor({inf}), tensor({-inf})));
  CHECK_FALSE(allclose(tensor({inf}), tensor({1}), {.atol = 1e300}));
  CHECK(allclose(tensor({3e38}), tensor({3e38})));
  CHECK(allclose(zeros({0}), zeros({0})));
  CHECK(allclose(ones({2, 3}), ones({3})));
  CHECK_FALSE(allclose(tensor({{1, 1}, {1, 2}}).mT(), ones({2, 2})));
  CHECK(allclose(tensor({1, 2}, int64), tensor({1, 2}, int64)));
  CHECK_FALSE(allclose(tensor({true}), tensor({false})));
  CHECK_THROWS_WITH(allclose(one, ones({1})), "allclose: dtypes differ: float64 and float32");
  CHECK_THROWS_WITH(allclose(ones({2}), ones({3})),
                    "allclose: shapes do not broadcast: (2,) and (3,)");
  CHECK_THROWS_WITH(allclose(one, one, {.rtol = -1}),
                    "allclose: expected rtol and atol >= 0, got -1 and 1e-08");
}

}  // namespace einsum_test
