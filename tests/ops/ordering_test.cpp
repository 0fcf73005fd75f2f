// Values, edge cases and messages of max, min, sort and topk.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/core/core.h"
#include "tests/ops/value_checks.h"

namespace ordering_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;

/// Values in [0, 1) without ties, so that gradients of orderings are well defined.
Tensor distinct(const Shape& shape) {
  const int64_t n = shape.numel();
  return (randperm(n).to(float64) / static_cast<double>(std::max<int64_t>(n, 1))).reshape(shape);
}

}  // namespace

TEST_CASE("max, min, argmax: the first of equal elements counts, and NaN wins", "[reduction]") {
  const Tensor x = tensor({{1, 5, 5}, {7, 2, 7}}, float64);
  const auto [values, indices] = max(x, 1);
  check_values(values, {2}, {5, 7});
  CHECK(indices.to_vector<int64_t>() == Ints{1, 0});
  CHECK(min(x, 0, keepdim).indices.shape() == Shape{1, 3});
  CHECK(min(x, 0).indices.to_vector<int64_t>() == Ints{0, 1, 0});
  CHECK(argmax(x, -1).to_vector<int64_t>() == Ints{1, 0});
  CHECK(argmax(eq(x, 5), 1).to_vector<int64_t>() == Ints{1, 0});
  CHECK(max(tensor({3, 9, 4}, int64)).item<int64_t>() == 9);
  CHECK(min(tensor({3, 9, 4}, int64), 0).values.item<int64_t>() == 3);
  const Tensor t = from_data<double>({3, NaN, 1, NaN, 2}, {5});
  for (const auto& [value, index] : {max(t, 0), min(t, 0)}) {
    CHECK(std::isnan(value.item()));
    CHECK(index.item<int64_t>() == 1);
  }
  CHECK(std::isnan(max(t).item()));
  CHECK(std::isnan(min(t).item()));
  check_values(max(full({3}, -inf)), {}, {-inf});
}

TEST_CASE("max, min over all elements of a long tensor", "[reduction]") {
  std::vector<double> numbers(200'000, 0.5);
  numbers[70'001] = numbers[150'000] = 2;
  numbers[130'000] = -3;
  const Tensor x = from_data(numbers, {400, 500}).requires_grad_();
  (max(x) * 3 + min(x)).backward();
  CHECK(max(x).item() == 2);
  CHECK(min(x).item() == -3);
  const auto dx = x.grad().to_vector<double>();
  CHECK(dx[70'001] == 3);
  CHECK(dx[130'000] == 1);
  CHECK(std::count(dx.begin(), dx.end(), 0.0) == 199'998);
}

TEST_CASE("sort and topk", "[reduction]") {
  const Tensor t = from_data<double>({3, NaN, 1, NaN, 2, 1}, {6});
  check_values(sort(t).values, {6}, {1, 1, 2, 3, NaN, NaN});
  CHECK(sort(t).indices.to_vector<int64_t>() == Ints{2, 5, 4, 0, 1, 3});
  check_values(sort(t, 0, true).values, {6}, {NaN, NaN, 3, 2, 1, 1});
  CHECK(sort(t, 0, true).indices.to_vector<int64_t>() == Ints{1, 3, 0, 4, 2, 5});
  CHECK(topk(t, 3).indices.to_vector<int64_t>() == Ints{1, 3, 0});
  const Tensor x = tensor({{4, 1}, {2, 8}, {4, 5}}, float64);
  check_values(sort(x, 0).values, {3, 2}, {2, 1, 4, 5, 4, 8});
  CHECK(sort(x, 0).indices.to_vector<int64_t>() == Ints{1, 0, 0, 2, 2, 1});
  CHECK(topk(x, 2, 0).indices.to_vector<int64_t>() == Ints{0, 1, 2, 2});
  check_values(topk(x, 1, -1).values, {3, 1}, {4, 8, 5});
  CHECK(topk(x, 0, 0).values.shape() == Shape{0, 2});
  CHECK(sort(eq(x, 4), 0).values.to_vector<int64_t>() == Ints{0, 0, 1, 0, 1, 0});
}

TEST_CASE("gradients of orderings", "[reduction]") {
  manual_seed(3);
  for (const Tensor& base :
       {distinct({4, 3}), distinct({3, 4}).transpose(0, 1), distinct({2, 1, 3})}) {
    const Tensor x = base;
    check_gradients(x, [](const Tensor& t) { return max(t * t, 0).values; });
    check_gradients(x, [](const Tensor& t) { return min(t * t, -1, keepdim).values; });
    check_gradients(x, [](const Tensor& t) { return max(t * t) + min(t * t); });
    check_gradients(x, [](const Tensor& t) { return sort(t * t, 0).values; });
    check_gradients(x, [](const Tensor& t) { return sort(t * t, -1, true).values; });
    check_gradients(x, [](const Tensor& t) { return topk(t * t, 2, 0).values; });
  }
}

TEST_CASE("median: the lower middle, ties, NaN wins, every dtype", "[reduction]") {
  const Tensor x = tensor({{4, 1, 3, 2}, {5, 5, 5, 5}}, float64);
  const auto [values, indices] = median(x, 1);
  check_values(values, {2}, {2, 5});
  CHECK(indices.to_vector<int64_t>() == Ints{3, 1});
  check_values(median(x, 0, keepdim).values, {1, 4}, {4, 1, 3, 2});
  CHECK(median(tensor({7, 9, 8}, int64)).item<int64_t>() == 8);
  CHECK(median(tensor({true, false, true})).item<bool>());
  check_values(median(tensor({-inf, inf, 1})), {}, {1});
  const Tensor t = from_data<double>({3, NaN, 1, NaN, 2}, {5});
  CHECK(std::isnan(median(t).item()));
  CHECK(median(t, 0).indices.item<int64_t>() == 1);
  CHECK(grad({median(x.requires_grad_())}, {x})[0].to_vector<double>() ==
        std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("quantile: ends, infinities, NaN, equal elements", "[reduction]") {
  const Tensor x = tensor({5, 1, 4, 2}, float64);
  check_values(quantile(x, 0), {}, {1});
  check_values(quantile(x, 1), {}, {5});
  check_values(quantile(x, 0.5), {}, {3});
  check_values(quantile(x, 0.25), {}, {1.75});
  check_values(quantile(tensor({1, inf, inf}), 0.75), {}, {inf});
  check_values(quantile(tensor({-inf, 2, inf}), 0.5), {}, {2});
  check_values(quantile(tensor({-inf, 2, 3}), 0.25), {}, {-inf});
  check_values(quantile(tensor({{1, NaN}, {1, 3}}), 0.5, 1), {2}, {NaN, 2});
  check_values(quantile(full({7}, 0.1), 0.3), {}, {double{0.1f}}, 0);
  check_values(quantile(scalar(3), 0.3), {}, {3});
  check_values(grad({quantile(x.requires_grad_(), 0.25)}, {x})[0], {4}, {0, 0.25, 0, 0.75});
}

TEST_CASE("unique: NaN, signs of 0, every dtype", "[reduction]") {
  const Tensor x = from_data<double>({1, NaN, 0, -0.0, NaN, 1, -inf}, {7});
  const auto [values, inverse, counts] = unique(x);
  check_values(values, {5}, {-inf, 0, 1, NaN, NaN});
  CHECK(inverse.to_vector<int64_t>() == Ints{2, 3, 1, 1, 4, 2, 0});
  CHECK(counts.to_vector<int64_t>() == Ints{1, 2, 2, 1, 1});
  CHECK_FALSE(unique(x.requires_grad_()).values.requires_grad());
  CHECK(unique(tensor({{3, 1}, {3, 3}}, int64).mT()).values.to_vector<int64_t>() == Ints{1, 3});
  CHECK(unique(tensor({{3, 1}, {2, 3}}, int64).mT()).inverse.to_vector<int64_t>() ==
        Ints{2, 1, 0, 2});
  CHECK(unique(tensor({true, true})).counts.to_vector<int64_t>() == Ints{2});
  CHECK(unique(ones({1}).expand({5})).counts.to_vector<int64_t>() == Ints{5});
  CHECK(unique(zeros({2, 0})).inverse.shape() == Shape{2, 0});
}

}  // namespace ordering_test
