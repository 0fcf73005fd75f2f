// Values, edge cases and messages of reductions, orderings and indexing. Expected values are computed
// by hand or come from PyTorch 1.13.1.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "gradus/core/core.h"

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;

/// Equal shapes and values within a relative 1e-9; NaN equals NaN.
void check_values(const Tensor& got, const Shape& shape, const std::vector<double>& expected,
                  double tolerance = 1e-9) {
  CHECK(got.shape() == shape);
  const auto values = got.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    INFO("element " << i << ": " << values[i] << ", expected " << expected[i]);
    const bool same =
        values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]));
    CHECK((same || std::abs(values[i] - expected[i]) <= tolerance * std::abs(expected[i])));
  }
}

Tensor matrix() { return tensor({{1, -2, 3}, {0.5, 4, -1}}, float64); }

/// Values in [0, 1) without ties, so that gradients of orderings are well defined.
Tensor distinct(const Shape& shape) {
  const int64_t n = shape.numel();
  return (randperm(n).to(float64) / static_cast<double>(std::max<int64_t>(n, 1))).reshape(shape);
}

/// Gradient and gradient of gradient of one function of one tensor.
template <class F>
void check_gradients(const Tensor& x, const F& f) {
  const TensorFunction g = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{f(in[0])};
  };
  const Tensor leaf = x.detach();
  leaf.requires_grad_();
  const GradcheckResult first = gradcheck(g, {leaf}), second = gradgradcheck(g, {leaf});
  INFO(first.message << second.message);
  CHECK((first && second));
}

Tensor strided(const Shape& shape) {  // transposed, and every second element of a longer axis
  Shape longer = shape;
  std::reverse(longer.begin(), longer.end());
  longer[0] *= 2;
  Shape order;
  for (int i = shape.size() - 1; i >= 0; --i) order.push_back(i);
  return randn(longer, float64).slice(0, 0, INT64_MAX, 2).permute(order);
}

}  // namespace

// ---- sums ----

TEST_CASE("sum, mean, var, norm: values", "[reduction]") {
  const Tensor x = matrix();
  check_values(sum(x), {}, {5.5});
  check_values(sum(x, 0), {3}, {1.5, 2, 2});
  check_values(sum(x, -1), {2}, {2, 3.5});
  check_values(sum(x, -1, keepdim), {2, 1}, {2, 3.5});
  check_values(sum(x, {0, 1}, keepdim), {1, 1}, {5.5});
  check_values(sum(x, Shape{}), {}, {5.5});
  check_values(mean(x), {}, {5.5 / 6});
  check_values(mean(x, 0, keepdim), {1, 3}, {0.75, 1, 1});
  check_values(var(x, {1}), {2}, {6.3333333333333333, 6.5833333333333333});
  check_values(var(x, {0, 1}, 0), {}, {4.3680555555555555});
  check_values(norm(x), {}, {5.5901699437494742});
  check_values(norm(x, {0}), {3}, {1.1180339887498949, 4.4721359549995796, 3.1622776601683795});
  check_values(sum(scalar(3, float64)), {}, {3});
  CHECK(sum(tensor({3, 4, 5}, int64)).item<int64_t>() == 12);
  const Tensor counted = sum(gt(x, 0), 1);
  CHECK(counted.dtype() == int64);
  CHECK(counted.to_vector<int64_t>() == Ints{2, 2});
}

TEST_CASE("sum over every set of axes of strided inputs", "[reduction]") {
  manual_seed(1);
  const Tensor base = randn({3, 5, 4, 6}, float64);
  const std::vector<Tensor> inputs{base,
                                   base.permute({2, 0, 3, 1}),
                                   base.slice(1, 0, 5, 2).slice(3, 1),
                                   base.transpose(1, 3),
                                   base.slice(0, 1, 2),
                                   base.select(2, 1).unsqueeze(1).expand({3, 7, 5, 6})};
  for (const Tensor& x : inputs)
    for (int set = 1; set < 16; ++set) {
      Shape dims, out_shape;
      for (int i = 0; i < 4; ++i) {
        if (set >> i & 1)
          dims.push_back(i % 2 ? i : i - 4);
        else
          out_shape.push_back(x.shape()[i]);
      }
      const Shape strides = contiguous_strides(out_shape);
      std::vector<double> expected(static_cast<size_t>(out_shape.numel()));
      const auto values = x.to_vector<double>();
      const Shape all = contiguous_strides(x.shape());
      for (int64_t e = 0; e < x.numel(); ++e) {
        int64_t at = 0;
        for (int i = 0, kept = 0; i < 4; ++i)
          if (!(set >> i & 1)) at += e / all[i] % x.shape()[i] * strides[kept++];
        expected[static_cast<size_t>(at)] += values[static_cast<size_t>(e)];
      }
      INFO("shape " << x.shape() << " strides " << x.strides() << " dims " << dims);
      const auto got = sum(x, dims).to_vector<double>();
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(1e-12));
    }
}

TEST_CASE("sums of many rows and columns are right and the same at any thread count",
          "[reduction]") {
  const int threads = num_threads();
  const std::vector<Shape> shapes{{7, 40000}, {40000, 7}, {300, 1500}, {20, 50, 130}, {1, 200000}};
  for (const Shape& shape : shapes) {
    INFO("shape " << shape);
    const Tensor ints = arange(shape.numel()).reshape(shape);
    const Tensor x = (ints.to(float32) / 7.0).contiguous();
    for (int64_t dim = 0; dim < x.rank(); ++dim) {
      set_num_threads(1);
      const Tensor one = sum(x, dim), var_one = var(x, {dim}, 0);
      set_num_threads(3);
      CHECK(sum(x, dim).to_vector<float>() == one.to_vector<float>());
      CHECK(var(x, {dim}, 0).to_vector<float>() == var_one.to_vector<float>());
      const Tensor exact = sum(ints, dim);
      const auto got = one.to_vector<double>();
      const auto expected = exact.to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i)
        if (std::abs(got[i] - expected[i] / 7) > 1e-6 * expected[i]) FAIL_CHECK("element " << i);
    }
  }
  set_num_threads(threads);
}

TEST_CASE("float32 sums keep their digits", "[reduction]") {
  const int64_t n = 100'000'000;
  CHECK(sum(ones({1}).expand({n})).item() == 1e8);
  const Tensor x = full({20'000'000}, 0.1);
  CHECK(mean(x).item() == Approx(0.1f).epsilon(1e-6));
  CHECK(sum(x.reshape({-1, 2}), 0)[1].item() == Approx(1e7 * 0.1f).epsilon(1e-6));
  CHECK(norm(x).item() == Approx(0.1f * std::sqrt(2e7)).epsilon(1e-6));
}

TEST_CASE("variance does not cancel", "[reduction]") {
  const Tensor x = tensor({10000, 10001, 10002, 10003});
  CHECK(var(x, {0}).item() == Approx(5.0 / 3).epsilon(1e-6));
}

TEST_CASE("reductions of nothing", "[reduction]") {
  check_values(sum(zeros({0})), {}, {0});
  check_values(sum(zeros({2, 0}), 1), {2}, {0, 0});
  check_values(sum(zeros({2, 0}), 0, keepdim), {1, 0}, {});
  check_values(mean(zeros({0})), {}, {NaN});
  check_values(var(zeros({0, 2}), {0}), {2}, {NaN, NaN});
  check_values(var(zeros({1}), {0}), {}, {NaN});
  check_values(norm(zeros({3, 0}), {1}), {3}, {0, 0, 0});
  check_values(logsumexp(zeros({2, 0}), 1), {2}, {-inf, -inf});
  check_values(max(zeros({0, 3}), 1).values, {0}, {});
  check_values(sort(zeros({2, 0})).values, {2, 0}, {});
  const Tensor x = zeros({2, 0}, float64).requires_grad_();
  sum(sum(x, 1) + norm(x, {1}) + logsumexp(x, 1)).backward();
  CHECK(x.grad().shape() == Shape{2, 0});
}

TEST_CASE("logsumexp: large, infinite and NaN", "[reduction]") {
  check_values(logsumexp(matrix(), 1), {2}, {3.1328452337, 4.0362695651}, 1e-9);
  check_values(logsumexp(matrix(), 0, keepdim), {1, 3}, {1.4740769842, 4.0024756851, 3.0181499279});
  const Tensor x = from_data<double>({-inf, -inf, inf, 1, NaN, 1, NaN, -inf, 1000, 1000}, {5, 2});
  check_values(logsumexp(x, 1), {5}, {-inf, inf, NaN, NaN, 1000.6931471805599});
  const Tensor leaf = from_data<double>({-inf, -inf, 0, -inf}, {2, 2}).requires_grad_();
  const Tensor dx = grad({sum(logsumexp(leaf, 1))}, {leaf}, {.create_graph = true})[0];
  check_values(dx, {2, 2}, {0, 0, 1, 0});
  check_values(grad({sum(dx * dx)}, {leaf})[0], {2, 2}, {0, 0, 0, 0});
}

TEST_CASE("gradients of reductions", "[reduction]") {
  manual_seed(2);
  for (const Tensor& x :
       {strided({3, 4}), strided({1, 3}), strided({2, 1, 3}), randn({2, 0}, float64)})
    for (const bool keep : {false, true}) {
      check_gradients(x, [&](const Tensor& t) { return sum(t * t, -1, keep); });
      check_gradients(x, [&](const Tensor& t) { return mean(t * t, 0, keep); });
      check_gradients(x, [&](const Tensor& t) { return sum(t * t, {0, -1}, keep); });
      check_gradients(x, [&](const Tensor& t) { return norm(t, {0}, keep); });
      check_gradients(x, [&](const Tensor& t) { return logsumexp(t, -2, keep); });
      check_gradients(x, [&](const Tensor& t) { return var(t, {-1}, 0, keep); });
      if (x.numel() == 0) continue;
      check_gradients(x, [&](const Tensor& t) { return mean(t) * norm(t) + sum(t); });
      check_gradients(x, [&](const Tensor& t) { return var(t, Shape{}, 1, keep); });
    }
}

TEST_CASE("norm: the gradient at 0 is 0, of the gradient too", "[reduction]") {
  const Tensor x = from_data<double>({0, 0, 3, 4}, {2, 2}).requires_grad_();
  const Tensor dx = grad({sum(norm(x, {1}))}, {x}, {.create_graph = true})[0];
  check_values(dx, {2, 2}, {0, 0, 0.6, 0.8});
  check_values(grad({sum(dx)}, {x})[0], {2, 2}, {0, 0, 0.032, -0.024});
}

// ---- orderings ----

TEST_CASE("max, min, argmax: first among equals, NaN wins", "[reduction]") {
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

TEST_CASE("max, min of all: a long tensor's first largest", "[reduction]") {
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

TEST_CASE("reductions refuse bad input", "[reduction]") {
  const Tensor x = zeros({2, 3}), empty_axis = zeros({2, 0});
  CHECK_THROWS_WITH(sum(x, 2), StartsWith("sum: axis 2"));
  CHECK_THROWS_WITH(sum(x, {1, -1}), StartsWith("sum: axis -1 is given twice"));
  CHECK_THROWS_WITH(mean(zeros({2}, int64)), "mean: expected float32 or float64, got int64");
  CHECK_THROWS_WITH(var(zeros({2}, int64), {0}), StartsWith("var: expected float"));
  CHECK_THROWS_WITH(norm(zeros({2}, boolean)), StartsWith("norm: expected float"));
  CHECK_THROWS_WITH(logsumexp(zeros({2}, int64), 0), StartsWith("logsumexp: expected float"));
  CHECK_THROWS_WITH(max(empty_axis, 1), "max: axis 1 of shape (2, 0) is empty");
  CHECK_THROWS_WITH(argmax(empty_axis, -1), StartsWith("argmax: axis -1"));
  CHECK_THROWS_WITH(min(empty_axis), "min: a tensor of shape (2, 0) has no elements");
  CHECK_THROWS_WITH(topk(x, 4), StartsWith("topk: expected 0 <= k <= 3"));
  CHECK_THROWS_WITH(sort(x, 5), StartsWith("sort: axis 5"));
  CHECK_THROWS_AS(sum(Tensor()), Error);
}

// ---- indexing ----

TEST_CASE("gather and scatter_add: values", "[indexing]") {
  const Tensor x = matrix(), index = tensor({{2, 0}, {1, 1}}, int64);
  check_values(gather(x, 1, index), {2, 2}, {3, 1, 4, 4});
  check_values(gather(x, 0, tensor({{1, 0, 1}}, int64)), {1, 3}, {0.5, -2, -1});
  check_values(gather(x.transpose(0, 1), 0, index.transpose(0, 1)), {2, 2}, {3, 4, 1, 4});
  check_values(scatter_add(x, 1, index, tensor({{10, 20}, {30, 40}}, float64)), {2, 3},
               {21, -2, 13, 0.5, 74, -1});
  check_values(scatter_sum({2, 3}, -1, index, ones({2, 2}, float64)), {2, 3}, {1, 0, 1, 0, 2, 0});
  CHECK(gather(gt(x, 0), 1, index).dtype() == boolean);
  check_values(gather(x, 1, zeros({2, 0}, int64)), {2, 0}, {});
  CHECK(scatter_add(zeros({3}, int64), 0, tensor({1, 1}, int64), tensor({5, 6}, int64))
            .to_vector<int64_t>() == Ints{0, 11, 0});
}

TEST_CASE("index_select, index_add and embedding: values", "[indexing]") {
  const Tensor x = matrix();
  check_values(index_select(x, 1, tensor({2, 2, 0}, int64)), {2, 3}, {3, 3, 1, -1, -1, 0.5});
  check_values(index_select(x.transpose(0, 1), 0, tensor({1}, int64)), {1, 2}, {-2, 4});
  check_values(index_add(x, 0, tensor({1, 1}, int64), ones({2, 3}, float64)), {2, 3},
               {1, -2, 3, 2.5, 6, 1});
  check_values(index_sum({2, 3}, -1, tensor({2}, int64), ones({2, 1}, float64)), {2, 3},
               {0, 0, 1, 0, 0, 1});
  check_values(embedding(x, tensor({{1, 0}, {1, 1}}, int64)), {2, 2, 3},
               {0.5, 4, -1, 1, -2, 3, 0.5, 4, -1, 0.5, 4, -1});
  check_values(embedding(x, scalar(1, int64)), {3}, {0.5, 4, -1});
  check_values(embedding(x, zeros({0}, int64)), {0, 3}, {});
}

TEST_CASE("gradients of indexing", "[indexing]") {
  manual_seed(4);
  const Tensor index = tensor({{0, 2}, {2, 2}, {1, 0}}, int64), list = tensor({2, 0, 2}, int64);
  for (const Tensor& base : {randn({3, 3}, float64), strided({3, 3})}) {
    const Tensor x = base, pairs = x.slice(1, 0, 2);
    check_gradients(x, [&](const Tensor& t) { return gather(t * t, 1, index); });
    check_gradients(x, [&](const Tensor& t) { return gather(t * t, 0, index); });
    check_gradients(x, [&](const Tensor& t) { return scatter_add(t * t, -1, index, pairs); });
    check_gradients(pairs, [&](const Tensor& t) { return scatter_add(x, 0, index, t * t); });
    check_gradients(pairs, [&](const Tensor& t) { return scatter_sum({3, 4}, 1, index, t * t); });
    check_gradients(x, [&](const Tensor& t) { return index_select(t * t, -1, list); });
    check_gradients(x, [&](const Tensor& t) { return index_add(t * t, 0, list, x); });
    check_gradients(x, [&](const Tensor& t) { return index_add(x, 1, list, t * t); });
    check_gradients(x, [&](const Tensor& t) { return index_sum({3, 5}, 1, list, t * t); });
    check_gradients(x, [&](const Tensor& t) { return embedding(t * t, index); });
  }
}

TEST_CASE("embedding: the gradient adds repeats up, at any thread count, and into a sum",
          "[indexing]") {
  manual_seed(5);
  const int threads = num_threads();
  const Tensor ids = randint(0, 65, {12, 64}), dy = randn({12, 64, 200});
  std::vector<float> expected(65 * 200);
  const auto rows = ids.to_vector<int64_t>();
  const auto values = dy.to_vector<float>();
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < 200; ++j)
      expected[static_cast<size_t>(rows[i]) * 200 + j] += values[i * 200 + j];
  const Tensor weight = randn({65, 200}).requires_grad_();
  for (int n : {1, 2, 3}) {
    set_num_threads(n);
    weight.set_grad({});
    embedding(weight, ids).backward(dy);
    CHECK(weight.grad().to_vector<float>() == expected);
  }
  embedding(weight, ids).backward(dy);  // a sum is there: rows go straight into it
  CHECK(weight.grad()[3][7].item() == Approx(2 * expected[607]).epsilon(1e-5));
  set_num_threads(threads);
}

TEST_CASE("an index changed in place before backward is noticed", "[indexing]") {
  const Tensor x = ones({3}, float64).requires_grad_(), index = tensor({0, 1}, int64);
  const Tensor y = sum(index_select(x, 0, index));
  index.fill_(2);
  CHECK_THROWS_WITH(y.backward(), StartsWith("index_select") && Contains("changed in place"));
}

TEST_CASE("indexing refuses bad input before it writes", "[indexing]") {
  const Tensor x = zeros({2, 5}), list = tensor({0, 1, 4, 7}, int64);
  CHECK_THROWS_WITH(gather(zeros({5}), 0, list), "gather: index 7 at position 3 is outside [0, 5)");
  CHECK_THROWS_WITH(gather(x, 1, tensor({{0, 1}, {2, -1}}, int64)),
                    "gather: index -1 at position (1, 1) is outside [0, 5)");
  CHECK_THROWS_WITH(gather(x, 1, zeros({3, 1}, int64)),
                    Contains("is larger than x (2, 5) at axis 0"));
  CHECK_THROWS_WITH(gather(x, 1, list), Contains("differ in rank"));
  CHECK_THROWS_WITH(gather(x, 1, zeros({2, 1})), "gather: expected index of int64, got float32");
  CHECK_THROWS_WITH(gather(x, 2, x), StartsWith("gather: axis 2"));
  CHECK_THROWS_WITH(scatter_add(x, 1, zeros({2, 2}, int64), zeros({2, 3})),
                    "scatter_add: expected src of float32 (2, 2), got float32 (2, 3)");
  CHECK_THROWS_WITH(scatter_add(x, 1, zeros({2, 2}, int64), zeros({2, 2}, float64)),
                    "scatter_add: expected src of float32 (2, 2), got float64 (2, 2)");
  CHECK_THROWS_WITH(scatter_sum({2, 5}, 1, full({2, 2}, 5, int64), zeros({2, 2})),
                    "scatter_sum: index 5 at position (0, 0) is outside [0, 5)");
  CHECK_THROWS_WITH(index_select(x, 1, list),
                    "index_select: index 7 at position 3 is outside [0, 5)");
  CHECK_THROWS_WITH(index_select(x, 1, x), StartsWith("index_select: expected index (n,)"));
  CHECK_THROWS_WITH(index_add(x, 1, list, zeros({2, 3})),
                    "index_add: expected src of float32 (2, 4), got float32 (2, 3)");
  CHECK_THROWS_WITH(index_add(x, 1, list, zeros({2, 4})), Contains("index 7 at position 3"));
  CHECK_THROWS_WITH(embedding(x, tensor({{0, 1}, {2, 0}}, int64)),
                    "embedding: id 2 at position (1, 0) is outside [0, 2)");
  CHECK_THROWS_WITH(embedding(zeros({2}), list), StartsWith("embedding: expected weight (n, d)"));
}
