// Values, edge cases and messages of indexing.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/ops/value_checks.h"

namespace indexing_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

using Ints = std::vector<int64_t>;

}  // namespace

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

TEST_CASE("scatter: the last of repeated indices is kept and gets the gradient", "[indexing]") {
  const Tensor x = matrix(), index = tensor({{2, 2}, {0, 1}}, int64);
  const Tensor src = tensor({{10, 20}, {30, 40}}, float64).requires_grad_();
  const Tensor y = scatter(x, 1, index, src);
  check_values(y, {2, 3}, {1, -2, 20, 30, 40, -1});
  check_values(grad({sum(y)}, {src})[0], {2, 2}, {0, 1, 1, 1});
  check_values(scatter(x, 0, tensor({{1}}, int64), -5), {2, 3}, {1, -2, 3, -5, 4, -1});
  check_values(x, {2, 3}, {1, -2, 3, 0.5, 4, -1});
  CHECK(scatter(zeros({3}, boolean), 0, tensor({1}, int64), 1).to_vector<bool>() ==
        std::vector<bool>{false, true, false});
  CHECK(scatter(zeros({3}, int64), 0, tensor({1, 1}, int64), tensor({5, 6}, int64))
            .to_vector<int64_t>() == Ints{0, 6, 0});
  check_values(scatter(zeros({2, 3}), 1, zeros({2, 0}, int64), zeros({2, 0})), {2, 3},
               {0, 0, 0, 0, 0, 0});
  const Tensor repeated = ones({1}, int64).expand({3});
  check_values(scatter(zeros({2}), 0, repeated, tensor({1, 2, 3})), {2}, {0, 3});
}

TEST_CASE("nonzero: dtypes, rank 0, NaN and -0", "[indexing]") {
  CHECK(nonzero(tensor({{0, 5, 0}, {-1, 0, 2}}, int64)).to_vector<int64_t>() ==
        Ints{0, 1, 1, 0, 1, 2});
  CHECK(nonzero(tensor({{0, 5, 0}, {-1, 0, 2}}).mT()).to_vector<int64_t>() ==
        Ints{0, 1, 1, 0, 2, 1});
  CHECK(nonzero(tensor({false, true})).to_vector<int64_t>() == Ints{1});
  CHECK(nonzero(tensor({-0.0, NAN, INFINITY})).to_vector<int64_t>() == Ints{1, 2});
  CHECK(nonzero(scalar(3)).shape() == Shape{1, 0});
  CHECK(nonzero(scalar(0)).shape() == Shape{0, 0});
  CHECK(nonzero(zeros({0, 2})).shape() == Shape{0, 2});
}

TEST_CASE("bincount: lengths, weights that are not finite", "[indexing]") {
  const Tensor x = tensor({3, 1, 3}, int64);
  CHECK(bincount(x).to_vector<int64_t>() == Ints{0, 1, 0, 2});
  CHECK(bincount(x, {}, 2).to_vector<int64_t>() == Ints{0, 1, 0, 2});
  CHECK(bincount(x, {}, 5).to_vector<int64_t>() == Ints{0, 1, 0, 2, 0});
  CHECK(bincount(zeros({0}, int64)).shape() == Shape{0});
  CHECK(bincount(zeros({0}, int64), zeros({0}), 2).dtype() == float32);
  check_values(bincount(x, tensor({1, NAN, -3})), {4}, {0, NAN, 0, -2});
  check_values(bincount(ones({1}, int64).expand({4}), ones({1}, float64).expand({4})), {2}, {0, 4});
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

TEST_CASE("embedding: the gradient sums over repeated ids, at any thread count, into existing sums",
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
  embedding(weight, ids).backward(dy);  // rows are added to the existing sum
  CHECK(weight.grad()[3][7].item() == Approx(2 * expected[607]).epsilon(1e-5));
  set_num_threads(threads);
}

TEST_CASE("changing an index in place before backward is an error", "[indexing]") {
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

}  // namespace indexing_test
