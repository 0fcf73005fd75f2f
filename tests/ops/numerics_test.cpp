// All magnitudes, NaN and the limits of the dtypes, where errors tend to be silent. Expected
// values are computed by hand or come from PyTorch.

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/gradus.h"
#include "tests/ops/op_checks.h"
#include "tests/support/compare.h"

namespace numerics_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double NaN = std::nan("");

std::vector<double> gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor y = f(leaf);
  return grad({y}, {leaf}, {.grad_outputs = {ones_like(y)}})[0].to_vector<double>();
}

void check_same(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(i << ": " << got[i] << ", expected " << expected[i]);
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    CHECK((same || std::abs(got[i] - expected[i]) <= 1e-6 * std::abs(expected[i])));
  }
}

/// (1, T, 4) whose products q_i k_j are exactly `large` + (i + j) % 5.
Tensor queries_of(int64_t n, double large, Dtype dtype) {
  std::vector<double> q;
  for (int64_t i = 0; i < n; ++i)
    for (double v : {large, 1.0, static_cast<double>(i % 5), 0.0}) q.push_back(v);
  return from_data(q, {1, n, 4}).to(dtype);
}
Tensor keys_of(int64_t n, Dtype dtype) {
  std::vector<double> k;
  for (int64_t j = 0; j < n; ++j)
    for (double v : {1.0, static_cast<double>(j % 3), static_cast<double>(j % 2), 0.0})
      k.push_back(v);
  return from_data(k, {1, n, 4}).to(dtype);
}

/// softmax(q k^T + mask) v, from basic ops.
Tensor formula(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const Tensor scores = matmul(q, k.mT());
  return matmul(softmax(mask.defined() ? scores + mask : scores), v);
}

}  // namespace

TEST_CASE("attention's gradients match its forward weights at any magnitude of scores") {
  const double large = GENERATE(0.0, 1e3, 1e5, 1e6, -1e6);
  const int64_t queries = GENERATE(1, 3, 70), keys = GENERATE(2, 70, 200);
  INFO(large << " " << queries << " " << keys);
  manual_seed(1);
  const Tensor v = randn({1, keys, 16}), dy = randn({1, queries, 16});
  auto gradients = [&](Dtype dtype, auto attention) {
    const Tensors in{queries_of(queries, large, dtype).requires_grad_(),
                     keys_of(keys, dtype).requires_grad_(), v.to(dtype).detach().requires_grad_()};
    const Tensor y = attention(in[0], in[1], in[2]);
    Tensors out = grad({y}, in, {.grad_outputs = {dy.to(dtype)}});
    out.push_back(y.detach());
    return out;
  };
  const Tensors expected = gradients(float64, [](const Tensor& q, const Tensor& k,
                                                 const Tensor& v) { return formula(q, k, v, {}); });
  for (Dtype dtype : {float32, float64}) {
    const Tensors got = gradients(dtype, [](const Tensor& q, const Tensor& k, const Tensor& v) {
      return scaled_dot_product_attention(q, k, v, {.scale = 1});
    });
    // dk's first column is `large` times the rest, so dk's error is bounded by that column's
    // rounding, not by that of the weights.
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(relative_distance(got[i].to(float64), expected[i]) < (dtype == float32 ? 1e-5 : 1e-11));
  }
}

TEST_CASE("attention: a finite mask over a whole row keeps the row's softmax") {
  const Dtype dtype = GENERATE(float32, float64);
  const double lowest = dtype == float32 ? std::numeric_limits<float>::lowest()
                                         : std::numeric_limits<double>::lowest();
  const double hidden = GENERATE_COPY(-1e4, -1e9, -1e20, lowest);
  const int64_t n = 12;
  INFO(dtype << " " << hidden);
  manual_seed(2);
  const Tensor q = randn({1, n, 4}, dtype), k = randn({1, n, 4}, dtype),
               dy = randn({1, n, 4}, dtype);
  const Tensor v = randn({1, n, 4}, dtype);
  // Query 0 is masked at all keys, query 1 at all but one, query 2 at none.
  Tensor mask = zeros({n, n}, dtype);
  mask[0].fill_(hidden);
  mask[1].slice(0, 1).fill_(hidden);
  auto gradients = [&](auto attention) {
    const Tensors in{q.detach().requires_grad_(), k.detach().requires_grad_(),
                     v.detach().requires_grad_()};
    return grad({attention(in[0], in[1], in[2])}, in, {.grad_outputs = {dy}});
  };
  const Tensors got = gradients([&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return scaled_dot_product_attention(q, k, v, {.mask = mask, .scale = 1});
  });
  const Tensors expected = gradients(
      [&](const Tensor& q, const Tensor& k, const Tensor& v) { return formula(q, k, v, mask); });
  for (size_t i = 0; i < 3; ++i)
    CHECK(relative_distance(got[i], expected[i]) <
          (hidden == -1e4 && dtype == float32 ? 3e-3 : 1e-5));
  // By hand: a fully masked query weighs all keys equally, so each value gets dy / n.
  const Tensor alone = v.detach().requires_grad_();
  const Tensor y = scaled_dot_product_attention(zeros({1, 1, 4}, dtype), k, alone,
                                                {.mask = full({1, n}, hidden, dtype)});
  const Tensor dv = grad({y}, {alone}, {.grad_outputs = {ones_like(y)}})[0];
  check_same(dv.to_vector<double>(), std::vector<double>(4 * n, 1.0 / n));
}

TEST_CASE(
    "log_softmax, cross entropy and logsumexp: a constant added to the logits changes nothing") {
  const Dtype dtype = GENERATE(float32, float64);
  const double large = GENERATE(0.0, 1e6, 1e9, -1e9, 1e30, -3e38);
  INFO(dtype << " " << large);
  const Tensor logits = full({7}, large, dtype), target = tensor({3}, int64);
  const double log7 = std::log(7.0);
  check_same(log_softmax(logits).to_vector<double>(), std::vector<double>(7, -log7));
  std::vector<double> slope(7, 1.0 / 7);
  check_same(gradient([](const Tensor& x) { return logsumexp(x, 0); }, logits), slope);
  slope[3] -= 1;
  for (double smoothing : {0.0, 0.1}) {
    auto loss = [&](const Tensor& x) {
      return cross_entropy(x.unsqueeze(0), target, {.label_smoothing = smoothing});
    };
    CHECK(loss(logits).item() == Approx(log7).epsilon(1e-6));
    std::vector<double> expected(7, 1.0 / 7 - smoothing / 7);
    expected[3] -= 1 - smoothing;
    check_same(gradient(loss, logits), expected);
  }
}

TEST_CASE("long rows keep their precision") {
  const int64_t n = GENERATE(1000, 4097, 1 << 22);
  const double value = GENERATE(0.1, 1000.1, -1e6);
  INFO(n << " times " << value);
  const Tensor x = full({n}, value);
  const double rounded = static_cast<float>(value);
  CHECK(max(abs(layer_norm(x))).item() < 1e-5);
  CHECK(mean(x).item() == static_cast<float>(rounded));
  CHECK(var(x).item() == 0);
  check_same(softmax(x).slice(0, 0, 3).to_vector<double>(),
             std::vector<double>(3, 1.0 / static_cast<double>(n)));
  CHECK(log_softmax(x).slice(0, 0, 1).item() ==
        Approx(-std::log(static_cast<double>(n))).epsilon(1e-6));
  // The gradient of a bias sums over n rows; that of softmax sums to 0 over a row.
  const Tensor bias = zeros({3}).requires_grad_();
  layer_norm(ones({n, 3}), ones({3}), bias).backward(full({n, 3}, 0.1));
  CHECK(bias.grad().slice(0, 0, 1).item() == Approx(0.1 * static_cast<double>(n)).epsilon(1e-5));
  const std::vector<double> flat =
      gradient([](const Tensor& x) { return log_softmax(x) * 0.1; }, zeros({n}));
  CHECK(std::abs(flat[0]) < 1e-6);
}

TEST_CASE("means, norms and layer norm of values whose sums or squares overflow") {
  check_same(mean(full({5000}, 3e38)).to_vector<double>(), {static_cast<double>(3e38f)});
  check_same(norm(tensor({3e30, 4e30})).to_vector<double>(), {5e30});
  check_same(layer_norm(tensor({1e30, 3e30})).to_vector<double>(), {-1, 1});
  check_same(layer_norm(tensor({-1e37, 1e37})).to_vector<double>(), {-1, 1});
}

TEST_CASE("layer norm of rows whose mean is not representable in float32", "[fused]") {
  // 2^23 and 2^23 + 1 alternating: the mean is halfway, the variance is 1/4.
  const Tensor row = tensor({0x1p23, 0x1p23 + 1}).expand({32, 2}).reshape({64});
  const Tensor y = layer_norm(row);
  CHECK(y[1].item() - y[0].item() == Approx(2).epsilon(1e-3));
  CHECK(y[63].item() - y[62].item() == Approx(2).epsilon(1e-3));
}

TEST_CASE("sin and cos of large values are accurate and in [-1, 1]") {
  // Expected: PyTorch's double functions at the floats' values.
  const Tensor x = tensor({0.5, 1e5, 1e7, 1e10, 1e20, 3e38, -1e20});
  check_same(sin(x).to_vector<double>(),
             {0.479425538604203, 0.0357487979, 0.4205477931907825, -0.4875060250875107,
              0.6565766778545903, 0.8749048877644344, -0.6565766778545903});
  check_same(cos(x).to_vector<double>(),
             {0.8775825618903728, -0.9993608074, -0.9072703861817396, 0.8731196226768559,
              0.7542592830701055, -0.4842947835419069, 0.7542592830701055});
  // One large element changes no bit of the others, with or without a NaN beside it.
  CHECK(sin(x)[0].item() == sin(tensor({0.5}))[0].item());
  check_same(sin(tensor({NaN, 1e20, inf})).to_vector<double>(), {NaN, 0.6565766778545903, NaN});
  for (double slope : gradient([](const Tensor& x) { return sin(x); }, x))
    CHECK(std::abs(slope) <= 1);
}

TEST_CASE("gradients at NaN and zero equal PyTorch's") {
  check_same(
      gradient([](const Tensor& x) { return clamp(x, 0, 1); }, tensor({NaN, -1, 0, 0.5, 1, 2})),
      {0, 0, 1, 1, 1, 0});
  const Tensor a = tensor({NaN, 1, NaN, 2}), b = tensor({1, NaN, NaN, 2});
  for (auto f : {+[](const Tensor&x, const Tensor&y) { return maximum(x, y); },
                 +[](const Tensor&x, const Tensor&y) { return minimum(x, y); }}) {
    check_same(gradient([&](const Tensor& x) { return f(x, b); }, a), {1, 1, 1, 0.5});
    check_same(gradient([&](const Tensor& y) { return f(a, y); }, b), {1, 1, 1, 0.5});
  }
  const Tensor exponent = tensor({-1, 0, 0.5, 1, 2, -2}), zero = zeros({6});
  check_same(gradient([&](const Tensor& y) { return pow(zero, y); }, exponent),
             {-inf, 0, 0, 0, 0, -inf});
  check_same(gradient([&](const Tensor& x) { return pow(x, exponent); }, zero),
             {-inf, 0, inf, 1, 0, -inf});
}

TEST_CASE("the gradient of s / x where the square of x overflows or vanishes") {
  const Tensor x = tensor({1e20, -1e-30}, float32).requires_grad_();
  sum(1e30 / x.slice(0, 0, 1)).backward();
  CHECK(x.grad()[0].item() == Approx(-1e-10));
  x.set_grad({});
  sum(1e-30 / x.slice(0, 1, 2)).backward();
  CHECK(x.grad()[1].item() == Approx(-1e30));
}

TEST_CASE("second derivatives of pow where the exponent is 0") {
  // d2(a^b)/(da db) = a^(b-1) (1 + b log a): 1/a at b = 0, and NaN for a < 0, which has no
  // logarithm.
  const Tensor a = tensor({0.5, 2, -4}, float64).requires_grad_();
  const Tensor b = zeros({3}, float64).requires_grad_();
  const Tensor da =
      grad({pow(a, b)}, {a}, {.grad_outputs = {ones_like(a)}, .create_graph = true})[0];
  check_same(da.to_vector<double>(), {0, 0, 0});
  check_same(grad({da}, {b}, {.grad_outputs = {ones_like(a)}})[0].to_vector<double>(),
             {2, 0.5, NaN});
}

TEST_CASE("second derivatives over an empty axis are 0") {
  for (auto f :
       {+[](const Tensor& x) { return mean(x, 1); }, +[](const Tensor& x) { return var(x, 1); },
        +[](const Tensor& x) { return norm(x, 1); }}) {
    const Tensor x = zeros({2, 0}).requires_grad_(), dy = ones({2}).requires_grad_();
    const Tensor dx = grad({f(x)}, {x}, {.grad_outputs = {dy}, .create_graph = true})[0];
    CHECK(dx.shape() == Shape{2, 0});
    check_same(grad({sum(dx)}, {dy})[0].to_vector<double>(), {0, 0});
  }
}

TEST_CASE("attention with grouped heads at the largest rank has second derivatives") {
  manual_seed(4);
  const Shape q{1, 1, 1, 1, 2, 4, 3, 2}, k{1, 1, 1, 1, 2, 2, 3, 2};
  const Tensors in{randn(q, float64).requires_grad_(), randn(k, float64).requires_grad_(),
                   randn(k, float64).requires_grad_()};
  const GradcheckResult result = gradgradcheck(
      [](const Tensors& x) { return Tensors{scaled_dot_product_attention(x[0], x[1], x[2])}; }, in);
  INFO(result.message);
  CHECK(result.ok);
}

// ---- integers ----

TEST_CASE("values outside int64 are refused, not truncated") {
  CHECK_THROWS_WITH(arange(0, 1, 0.25), "arange: 0.25 is not an int64");
  CHECK_THROWS_WITH(arange(0, 2.5), "arange: 2.5 is not an int64");
  check_same(arange(0, 1, 0.25, float32).to_vector<double>(), {0, 0.25, 0.5, 0.75});
  const double big = 0x1p53;
  CHECK(arange(big, big + 8, 3).to_vector<int64_t>() ==
        std::vector<int64_t>{1L << 53, (1L << 53) + 3, (1L << 53) + 6});
  CHECK_THROWS_WITH(tensor({0.5}, int64), "tensor: 0.5 is not an int64");
  CHECK_THROWS_WITH(tensor({{1, 2}, {3, NaN}}, int64), "tensor: nan is not an int64");
  CHECK(full({1}, -0x1p63, int64).item<int64_t>() == INT64_MIN);
  for (Dtype dtype : {float32, float64})
    for (double value : {NaN, inf, -inf, 0x1p63, -0x1.000002p63}) {
      const Tensor x = tensor({1, value}, dtype), y = zeros({2}, int64);
      CHECK_THROWS_WITH(x.to(int64), Contains("to: ") && Contains("does not fit"));
      CHECK_THROWS_WITH(y.copy_(x), Contains("copy_: "));
      CHECK(y.to_vector<int64_t>() == std::vector<int64_t>{0, 0});
      CHECK_THROWS_WITH(x[1].item<int64_t>(), Contains("item: "));
      CHECK_THROWS_WITH(x.to_vector<int>(), Contains("to_vector: "));
    }
  CHECK(tensor({-0x1p63, -2.7, 2.7}, float64).to(int64).to_vector<int64_t>() ==
        std::vector<int64_t>{INT64_MIN, -2, 2});
  CHECK_THROWS_WITH(full({1}, 0x1p40, int64).item<int>(), Contains("item: 1099511627776"));
  CHECK(tensor({0.5})[0].item<bool>());
}

TEST_CASE("sums of int64 that overflow are refused; others are exact") {
  const int64_t top = INT64_MAX;
  auto whole = [](const std::vector<int64_t>& v) { return from_data(v, {std::ssize(v)}); };
  CHECK_THROWS_WITH(sum(whole({top, 1})), Contains("sum: the int64 sum") && Contains("overflows"));
  CHECK_THROWS_WITH(sum(whole({INT64_MIN, -1})), Contains("overflows"));
  CHECK(sum(whole({top, top, INT64_MIN, INT64_MIN, 5})).item<int64_t>() == 3);
  CHECK(sum(whole({top, 1, -1})).item<int64_t>() == top);
  CHECK(sum(whole({INT64_MIN, 7, -7})).item<int64_t>() == INT64_MIN);
  CHECK(sum(whole({-1, -(1L << 32), 1L << 40, -3})).item<int64_t>() == (1L << 40) - (1L << 32) - 4);
  CHECK_THROWS_WITH(sum(full({1}, -1, int64).expand({(1L << 31) + 1})),
                    "sum: expected at most 2^31 int64 elements, got 2147483649");
  CHECK(sum(full({3, 70000}, -5, int64), 1).to_vector<int64_t>() ==
        std::vector<int64_t>(3, -350000));
  // Elementwise int64 arithmetic wraps around, as in NumPy.
  CHECK((whole({top}) + whole({1})).item<int64_t>() == INT64_MIN);
  CHECK((whole({top}) * 2.0).item<int64_t>() == -2);
  CHECK((whole({INT64_MIN}) - whole({1})).item<int64_t>() == top);
  CHECK(whole({top}).add_(whole({1})).item<int64_t>() == INT64_MIN);
  CHECK(whole({top}).mul_(2).item<int64_t>() == -2);
}

TEST_CASE("sizes that overflow are refused by the op that got them") {
  const int64_t huge = int64_t{1} << 40;
  CHECK_THROWS_WITH(nn::Linear(huge, huge), Contains("Linear: too many elements in shape"));
  CHECK_THROWS_WITH(nn::Embedding(huge, huge), Contains("Embedding: too many elements in shape"));
  CHECK_THROWS_WITH(nn::LearnedPositions(huge, huge), Contains("LearnedPositions: too many"));
  CHECK_THROWS_WITH(nn::init::xavier_normal({huge, huge}), Contains("xavier_normal: too many"));
  CHECK_THROWS_WITH(nn::MLP(INT64_MAX), Contains("MLP: "));
  CHECK_THROWS_WITH(nn::MultiHeadAttention(INT64_MAX, {.heads = 1}),
                    Contains("MultiHeadAttention: "));
  CHECK_THROWS_WITH(nn::sinusoidal_positions(huge, huge),
                    Contains("sinusoidal_positions: too many"));
  CHECK_THROWS_WITH((Shape{huge, huge}.numel()), Contains("too many elements"));
  CHECK(Shape{huge, huge, 0}.numel() == 0);
  const nn::LearnedPositions positions(4, 2);
  CHECK_THROWS_AS(positions(1, INT64_MAX), Error);
}

TEST_CASE("loops and schedules work up to the limits of int64") {
  std::vector<std::pair<int64_t, int64_t>> chunks;
  parallel_for(5, INT64_MAX, [&](int64_t begin, int64_t end) { chunks.emplace_back(begin, end); });
  CHECK(chunks == std::vector<std::pair<int64_t, int64_t>>{{0, 5}});
  std::atomic<int64_t> covered{0};
  parallel_for(INT64_MAX, INT64_MAX / 2 + 1,
               [&](int64_t begin, int64_t end) { covered += end - begin; });
  CHECK(covered == INT64_MAX);
  CHECK(parallel_sum<int64_t>(7, INT64_MAX,
                              [](int64_t begin, int64_t end) { return end - begin; }) == 7);
  namespace schedule = optim::schedule;
  CHECK(schedule::linear_warmup(INT64_MAX, 2, INT64_MAX) == 2);
  CHECK(schedule::linear_warmup(INT64_MAX - 1, 2, INT64_MAX) == Approx(2));
  CHECK(schedule::cosine(INT64_MAX, {.lr = 1, .min_lr = 0.5, .steps = INT64_MAX}) == 0.5);
  CHECK(schedule::transformer(INT64_MAX, 64, 4000) == Approx(std::pow(0x1p63, -0.5) / 8));
}

}  // namespace numerics_test
