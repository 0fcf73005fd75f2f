// Values, edge cases and messages of reductions. Expected values are computed by hand or come from
// PyTorch 1.13.1.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/core/core.h"
#include "tests/ops/value_checks.h"

namespace reduction_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::StartsWith;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;

}  // namespace

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

TEST_CASE("sums of many rows and columns are correct, with the same bits at any thread count",
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

TEST_CASE("float32 sums keep their precision", "[reduction]") {
  const int64_t n = 100'000'000;
  CHECK(sum(ones({1}).expand({n})).item() == 1e8);
  const Tensor x = full({20'000'000}, 0.1);
  CHECK(mean(x).item() == Approx(0.1f).epsilon(1e-6));
  CHECK(sum(x.reshape({-1, 2}), 0)[1].item() == Approx(1e7 * 0.1f).epsilon(1e-6));
  CHECK(norm(x).item() == Approx(0.1f * std::sqrt(2e7)).epsilon(1e-6));
}

TEST_CASE("variance has no cancellation", "[reduction]") {
  const Tensor x = tensor({10000, 10001, 10002, 10003});
  CHECK(var(x, {0}).item() == Approx(5.0 / 3).epsilon(1e-6));
}

TEST_CASE("reductions of empty tensors", "[reduction]") {
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

TEST_CASE("norm: gradient and second derivative at 0 are 0", "[reduction]") {
  const Tensor x = from_data<double>({0, 0, 3, 4}, {2, 2}).requires_grad_();
  const Tensor dx = grad({sum(norm(x, {1}))}, {x}, {.create_graph = true})[0];
  check_values(dx, {2, 2}, {0, 0, 0.6, 0.8});
  check_values(grad({sum(dx)}, {x})[0], {2, 2}, {0, 0, 0.032, -0.024});
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

}  // namespace reduction_test
