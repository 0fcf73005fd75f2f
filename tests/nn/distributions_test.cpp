// Distributions against torch.distributions, their limits, and their samples.

#include "gradus/nn/probability/distributions.h"

#include <catch2/catch.hpp>
#include <map>

#include "gradus/core/core.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace distributions_test {

using namespace gradus;
using namespace gradus::testing;
using nn::Bernoulli;
using nn::Categorical;
using nn::Normal;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
using Tensors = std::vector<Tensor>;
using Cases = std::map<std::string, std::function<Tensor(const Tensors&)>>;

/// The cases of golden/scripts/make_distribution_golden.py.
Cases golden_cases() {
  const auto of_logits = Categorical::from_logits;
  const auto of_probabilities = Categorical::from_probabilities;
  const auto coin_of_logits = Bernoulli::from_logits;
  const auto coin = Bernoulli::from_probabilities;
  const auto normal = [](const Tensors& x) { return Normal(x[0], x[1]).log_prob(x[2]); };
  const auto entropy = [=](const Tensors& x) { return of_logits(x[0]).entropy(); };
  const auto divergence = [=](const Tensors& x) { return kl(of_logits(x[0]), of_logits(x[1])); };
  const auto choice = [=](const Tensors& x) { return of_probabilities(x[0]).log_prob(x[1]); };
  const auto toss = [=](const Tensors& x) { return coin_of_logits(x[0]).log_prob(x[1]); };
  return {
      {"normal_log_prob", normal},
      {"normal_log_prob_wide", normal},
      {"normal_entropy", [](const Tensors& x) { return Normal(x[0], x[1]).entropy(); }},
      {"normal_kl", [](const Tensors& x) { return kl(Normal(x[0], x[1]), Normal(x[2], x[3])); }},
      {"categorical_log_prob", [=](const Tensors& x) { return of_logits(x[0]).log_prob(x[1]); }},
      {"categorical_log_prob_p", choice},
      {"categorical_log_prob_wide", choice},
      {"categorical_entropy", entropy},
      {"categorical_entropy_excluding", entropy},
      {"categorical_entropy_steep", entropy},
      {"categorical_entropy_p", [=](const Tensors& x) { return of_probabilities(x[0]).entropy(); }},
      {"categorical_kl", divergence},
      {"categorical_kl_excluding", divergence},
      {"categorical_kl_infinite", divergence},
      {"categorical_kl_p",
       [=](const Tensors& x) { return kl(of_probabilities(x[0]), of_probabilities(x[1])); }},
      {"bernoulli_log_prob", toss},
      {"bernoulli_log_prob_p", [=](const Tensors& x) { return coin(x[0]).log_prob(x[1]); }},
      {"bernoulli_log_prob_steep", toss},
      {"bernoulli_entropy", [=](const Tensors& x) { return coin_of_logits(x[0]).entropy(); }},
      {"bernoulli_entropy_p", [=](const Tensors& x) { return coin(x[0]).entropy(); }},
      {"bernoulli_kl",
       [=](const Tensors& x) { return kl(coin_of_logits(x[0]), coin_of_logits(x[1])); }},
      {"bernoulli_kl_p", [=](const Tensors& x) { return kl(coin(x[0]), coin(x[1])); }}};
}

/// Checks the gradient, which must be a number also where PyTorch's is NaN.
void check_gradient(const Tensor& got, const Tensor& expected, double tolerance) {
  CHECK(!any(isnan(got)).item<bool>());
  CHECK(difference(masked_fill(got.to(float64), isnan(expected), NAN), expected) < tolerance);
}

Tensor numbers(std::initializer_list<double> values, Dtype dtype = float64) {
  return from_data(std::vector<double>(values)).to(dtype);
}

/// Throws unless first and second derivatives of f are right.
void check_derivatives(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs) {
  for (const Tensor& x : inputs)
    if (is_floating(x.dtype())) x.requires_grad_();
  const TensorFunction g = [&](const Tensors& in) { return Tensors{f(in)}; };
  const GradcheckResult first = gradcheck(g, inputs), second = gradgradcheck(g, inputs);
  INFO(first.message << second.message);
  CHECK((first && second));
}

/// Whether |found - expected| is within five standard deviations of a mean of n samples: one test
/// in two million would fail by chance, and the seed is fixed.
bool is_near(double found, double expected, double deviation, int64_t n) {
  return std::abs(found - expected) <= 5 * deviation / std::sqrt(static_cast<double>(n));
}

}  // namespace

TEST_CASE("distributions: PyTorch's values and gradients", "[golden]") {
  const golden::File file("distributions");
  const Cases cases = golden_cases();
  for (const auto& [name, f] : cases) {
    INFO(name);
    for (const Dtype dtype : {float32, float64}) {
      const bool steep = name.ends_with("steep");  // e^-1000 and such: 0 in float32
      const double tolerance = dtype == float64 ? 1e-12 : steep ? 1e-4 : 2e-5;
      Tensors inputs, wanted, grads;
      for (int i = 0; file.has(name + ".in." + std::to_string(i)); ++i) {
        inputs.push_back(file.get(name + ".in." + std::to_string(i), dtype).clone());
        if (!file.has(name + ".grad." + std::to_string(i))) continue;
        wanted.push_back(inputs.back().requires_grad_());
        grads.push_back(file.get(name + ".grad." + std::to_string(i)));
      }
      const Tensor y = f(inputs);
      CHECK(difference(y.to(float64), file.get(name + ".out")) < tolerance);
      const Tensors d = grad({y}, wanted, {.grad_outputs = {file.get(name + ".dy", dtype)}});
      for (size_t i = 0; i < d.size(); ++i) check_gradient(d[i], grads[i], tolerance * 10);
    }
  }
  for (const auto& [key, tensor] : file.with_prefix(""))
    if (key.ends_with(".out")) CHECK(cases.contains(key.substr(0, key.size() - 4)));
}

TEST_CASE("distributions: first and second derivatives") {
  manual_seed(3);
  const Tensor m = randn({2, 1}, float64), s = rand({3}, float64) + 0.5;
  check_derivatives([](const Tensors& x) { return Normal(x[0], x[1]).log_prob(x[2]); },
                    {m, s, randn({2, 3}, float64)});
  check_derivatives([](const Tensors& x) { return Normal(x[0], x[1]).entropy(); }, {m, s});
  check_derivatives([](const Tensors& x) { return kl(Normal(x[0], x[1]), Normal(x[1], x[2])); },
                    {m, s, rand({2, 3}, float64) + 0.5});
  check_derivatives(
      [](const Tensors& x) {
        manual_seed(5);
        return Normal(x[0], x[1]).rsample({2});
      },
      {m, s});
  const Tensor x = randn({2, 3}, float64), p = rand({2, 3}, float64) * 0.8 + 0.1;
  const Tensor k = tensor({{0}, {2}, {1}}, int64);
  for (const auto& make : {Categorical::from_logits, Categorical::from_probabilities}) {
    check_derivatives([&](const Tensors& in) { return make(in[0]).log_prob(in[1]); }, {p, k});
    check_derivatives([&](const Tensors& in) { return make(in[0]).entropy(); }, {p});
    check_derivatives(
        [&](const Tensors& in) { return kl(make(in[0]), Categorical::from_logits(in[1])); },
        {p, x});
  }
  const Tensor v = tensor({{0, 1, 1}}, float64);
  for (const auto& make : {Bernoulli::from_logits, Bernoulli::from_probabilities}) {
    check_derivatives([&](const Tensors& in) { return make(in[0]).log_prob(v); }, {p});
    check_derivatives([&](const Tensors& in) { return make(in[0]).entropy(); }, {p});
    check_derivatives(
        [&](const Tensors& in) { return kl(make(in[0]), Bernoulli::from_logits(in[1])); }, {p, x});
  }
}

TEST_CASE("distributions: the limits of Categorical where probabilities are 0") {
  for (const Dtype dtype : {float32, float64}) {
    const AnomalyMode anomaly;
    const Tensor p = tensor({{0, 1, 0}, {0.25, 0, 0.75}}, dtype).requires_grad_();
    const Tensor x = tensor({{-inf, 5, -inf}, {0, -inf, std::log(3)}}, dtype).requires_grad_();
    const double h = -0.25 * std::log(0.25) - 0.75 * std::log(0.75);
    for (const auto& [made, leaf] :
         {std::pair{Categorical::from_probabilities(p), p}, {Categorical::from_logits(x), x}}) {
      CHECK(difference(made.entropy(), {0, h}) < 1e-6);
      CHECK(difference(made.log_prob(tensor({0, 0}, int64)), {-inf, std::log(0.25)}) < 1e-6);
      CHECK(difference(made.log_prob(tensor({1, 1}, int64)), {0, -inf}) < 1e-6);
      CHECK(difference(kl(made, made), {0, 0}) == 0);
      const auto fair = Categorical::from_logits(zeros({3}, dtype));
      CHECK(difference(kl(made, fair), {std::log(3), std::log(3) - h}) < 1e-6);
      CHECK(difference(kl(fair, made), {inf, inf}) == 0);
      for (const Tensor& y : {made.entropy(), kl(made, fair), kl(fair, made), kl(made, made),
                              made.log_prob(tensor({0, 1}, int64))}) {
        const Tensor d = grad({y.sum()}, {leaf}, {.retain_graph = true})[0];
        CHECK(!any(isnan(d)).item<bool>());
      }
    }
    // Weights that do not sum to 1 are divided by their sum.
    CHECK(difference(Categorical::from_probabilities(tensor({1, 3, 0}, dtype)).probabilities(),
                     {0.25, 0.75, 0}) < 1e-6);
  }
}

TEST_CASE("distributions: the limits of Bernoulli where the probability is 0 or 1") {
  for (const Dtype dtype : {float32, float64}) {
    const AnomalyMode anomaly;
    const Tensor p = tensor({0, 1, 0, 1}, dtype).requires_grad_();
    const Tensor x = tensor({-inf, inf, -inf, inf}, dtype).requires_grad_();
    const Tensor v = tensor({0, 0, 1, 1}, dtype);
    for (const auto& [made, leaf] :
         {std::pair{Bernoulli::from_probabilities(p), p}, {Bernoulli::from_logits(x), x}}) {
      CHECK(difference(made.probabilities(), {0, 1, 0, 1}) == 0);
      CHECK(difference(made.entropy(), {0, 0, 0, 0}) == 0);
      CHECK(difference(made.log_prob(v), {0, -inf, -inf, 0}) == 0);
      const auto fair = Bernoulli::from_logits(zeros({4}, dtype));
      const auto other = Bernoulli::from_probabilities(tensor({0, 0, 1, 1}, dtype));
      CHECK(difference(kl(made, other), {0, inf, inf, 0}) == 0);
      CHECK(difference(kl(made, fair), full({4}, std::log(2), dtype)) < 1e-6);
      CHECK(difference(kl(fair, made), full({4}, inf, dtype)) == 0);
      for (const Tensor& y : {made.entropy(), kl(made, fair), kl(fair, made), kl(made, other)}) {
        const Tensor d = grad({y.sum()}, {leaf}, {.retain_graph = true})[0];
        CHECK(!any(isnan(d)).item<bool>());
      }
    }
    // H(30) = 31 e^-30 to first order; no digits are lost to 1 - p.
    const Tensor steep = Bernoulli::from_logits(tensor({-30, 30}, dtype)).entropy();
    CHECK(difference(steep * std::exp(30), {31, 31}) < 1e-5);
  }
}

TEST_CASE("distributions: Normal at extreme scales") {
  // Squares of these deviations are outside float32's range.
  const Normal narrow(zeros({1}), full({1}, 1e-30)), wide(full({1}, 1e20), full({1}, 1e25));
  const double c = 0.5 * std::log(2 * M_PI);
  CHECK(difference(narrow.log_prob(full({1}, 2e-30)), {-2 + 30 * std::log(10) - c}) < 1e-6);
  CHECK(difference(wide.log_prob(full({1}, -1e25)), {-0.5 - 25 * std::log(10) - c}) < 1e-4);
  CHECK(difference(kl(narrow, wide), {55 * std::log(10) - 0.5}) < 1e-6);
}

TEST_CASE("distributions: shapes, from empty to prime sizes") {
  for (const int64_t n : {0, 1, 7}) {
    const Normal normal(zeros({n, 1}, float64), ones({3}, float64));
    CHECK(normal.shape() == Shape{n, 3});
    CHECK(normal.sample({5}).shape() == Shape{5, n, 3});
    CHECK(normal.sample().dtype() == float64);
    CHECK(normal.log_prob(zeros({2, 1, 1}, float64)).shape() == Shape{2, n, 3});
    CHECK(kl(normal, Normal(zeros({2, 1, 1}, float64), ones({}, float64))).shape() ==
          Shape{2, n, 3});
    const auto classes = Categorical::from_logits(zeros({n, 11}));
    CHECK(classes.shape() == Shape{n});
    CHECK(classes.sample({2, 3}).shape() == Shape{2, 3, n});
    CHECK(classes.sample().dtype() == int64);
    CHECK(classes.log_prob(zeros({4, 1}, int64)).shape() == Shape{4, n});
    CHECK(classes.entropy().shape() == Shape{n});
    CHECK(kl(classes, Categorical::from_logits(zeros({11}))).shape() == Shape{n});
    CHECK(kl(Categorical::from_logits(zeros({11})), classes).shape() == Shape{n});
    const auto coins = Bernoulli::from_logits(zeros({n}, float64));
    CHECK(coins.sample({0}).shape() == Shape{0, n});
    CHECK(coins.sample({13}).dtype() == float64);
    CHECK(coins.log_prob(ones({3, 1}, float64)).shape() == Shape{3, n});
    CHECK(kl(coins, Bernoulli::from_logits(zeros({2, 1}, float64))).shape() == Shape{2, n});
  }
  // As many axes as a tensor may have, the axis of classes among them.
  const Shape seven = Shape::filled(7, 1), six = Shape::filled(6, 1);
  CHECK(Normal(ones({2}), ones({2})).sample(seven).rank() == 8);
  CHECK(Bernoulli::from_logits(ones({2})).sample(seven).rank() == 8);
  CHECK(Categorical::from_logits(zeros({2, 3})).sample(six).rank() == 7);
  const auto one = Categorical::from_logits(scalar(3).reshape({1}));
  CHECK(one.sample({9}).sum().item() == 0);
  CHECK(one.entropy().item() == 0);
}

TEST_CASE("distributions: moments of samples") {
  manual_seed(8);
  constexpr int64_t n = 100'000;
  const Tensor x = Normal(tensor({-1, 30}, float64), tensor({2, 0.1}, float64)).sample({n});
  for (const auto& [i, m, s] : {std::tuple{0, -1.0, 2.0}, {1, 30.0, 0.1}}) {
    CHECK(is_near(mean(x.select(1, i)).item(), m, s, n));
    CHECK(is_near(var(x.select(1, i)).item(), s * s, std::sqrt(2) * s * s, n));
  }
  const std::vector<std::vector<double>> p = {{0, 0.5, 0, 0.2, 0.3, 0}, {0.9, 0, 0.05, 0, 0, 0.05}};
  const Tensor k = Categorical::from_probabilities(from_data(p)).sample({n});
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t c = 0; c < 6; ++c) {
      const double expected = p[static_cast<size_t>(row)][static_cast<size_t>(c)];
      const double found = mean(k.select(1, row) == static_cast<double>(c)).item();
      CHECK(is_near(found, expected, std::sqrt(expected * (1 - expected)), n));  // 0: never
    }
  const Tensor v = Bernoulli::from_probabilities(numbers({0, 0.03, 0.5, 1})).sample({n});
  for (const auto& [i, q] : {std::pair{0, 0.0}, {1, 0.03}, {2, 0.5}, {3, 1.0}})
    CHECK(is_near(mean(v.select(1, i)).item(), q, std::sqrt(q * (1 - q)), n));
  // The mean of -log p(x) over samples estimates the entropy; its deviation is 1/sqrt(2).
  const Normal normal(zeros({}, float64), full({}, 3, float64));
  CHECK(is_near(-mean(normal.log_prob(normal.sample({n}))).item(), normal.entropy().item(),
                std::sqrt(0.5), n));
}

TEST_CASE("distributions: the same seed gives the same samples, at any number of threads") {
  const Normal normal(zeros({7}), ones({7}));
  const auto classes = Categorical::from_logits(arange(0, 5, 1, float32));
  const auto coins = Bernoulli::from_logits(zeros({7}));
  const auto draw = [&](uint64_t seed) {
    manual_seed(seed);
    return Tensors{normal.sample({1031}), classes.sample({1031}), coins.sample({1031}),
                   normal.rsample({3})};
  };
  const int threads = num_threads();
  set_num_threads(1);
  const Tensors first = draw(1);
  set_num_threads(threads);
  const Tensors again = draw(1), other = draw(2);
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(difference(first[i], again[i]) == 0);
    CHECK(difference(first[i], other[i]) > 0);
  }
}

TEST_CASE("distributions: only rsample passes gradients to the parameters") {
  const Tensor m = tensor({1, 2}, float64).requires_grad_();
  const Tensor s = tensor({3, 0.5}, float64).requires_grad_();
  const Normal normal(m, s);
  CHECK_FALSE(normal.sample({3}).requires_grad());
  CHECK_FALSE(Categorical::from_logits(m).sample({3}).requires_grad());
  CHECK_FALSE(Bernoulli::from_logits(m).sample({3}).requires_grad());
  manual_seed(4);
  const Tensor x = normal.rsample({5});
  manual_seed(4);
  CHECK(difference(x.detach(), normal.sample({5})) == 0);
  // x = m + s e: dx/dm = 1, dx/ds = e = (x - m) / s
  const Tensors d = grad({x.sum()}, {m, s});
  CHECK(difference(d[0], {5, 5}) == 0);
  CHECK(difference(d[1], ((x - m) / s).sum(0).detach()) < 1e-13);
}

TEST_CASE("distributions: errors name what is wrong, before anything is drawn") {
  manual_seed(6);
  const Tensor two = ones({2}), x = zeros({2, 3});
  const Normal normal(two, two);
  const auto classes = Categorical::from_logits(x);
  const auto coins = Bernoulli::from_logits(two);
  const std::vector<std::pair<std::function<void()>, std::string>> calls = {
      {[&] {
         Normal(two, tensor({1, 0}));
       },
       "Normal: expected std_dev > 0, got 0 at position 1"},
      {[&] {
         Normal(two, tensor({-2, 1}));
       },
       "Normal: expected std_dev > 0, got -2 at position 0"},
      {[&] {
         Normal(two, tensor({1, NAN}));
       },
       "Normal: expected std_dev > 0, got nan at position 1"},
      {[&] {
         Normal(tensor({NAN, 1}), two);
       },
       "Normal: expected a mean that is not NaN, got nan at position 0"},
      {[&] { Normal(two, ones({3})); }, "Normal: shapes do not broadcast: (2,) and (3,)"},
      {[&] { Normal(two, two.to(float64)); }, "Normal: dtypes differ: float32 and float64"},
      {[&] { Normal(two.to(int64), two); }, "Normal: expected float32 or float64, got int64"},
      {[&] {
         normal.log_prob(tensor({1, NAN}));
       },
       "Normal::log_prob: expected values that are not NaN, got nan at position 1"},
      {[&] { normal.log_prob(ones({3})); },
       "Normal::log_prob: shapes do not broadcast: (3,) and (2,)"},
      {[&] { normal.log_prob(ones({2}, float64)); },
       "Normal::log_prob: expected values of float32, got float64"},
      {[&] { normal.sample({-1}); }, "Normal::sample: negative size in shape (-1, 2)"},
      {[&] { normal.sample(Shape::filled(8, 1)); },
       "Normal::sample: samples (1, 1, 1, 1, 1, 1, 1, 1) of a distribution of shape (2,) have too "
       "many axes"},
      {[&] { kl(normal, Normal(ones({3}), ones({3}))); },
       "kl: shapes do not broadcast: (2,) and (3,)"},
      {[&] { Categorical::from_logits(scalar(1)); },
       "Categorical: expected parameters (..., K), got ()"},
      {[&] {
         Categorical::from_logits(zeros({2, 0}));
       },
       "Categorical: expected at least one class, got shape (2, 0)"},
      {[&] {
         Categorical::from_logits(tensor({{0, 1}, {-inf, -inf}}));
       },
       "Categorical: expected a finite largest logit in each row, got -inf at position 1"},
      {[&] {
         Categorical::from_logits(tensor({0, NAN}));
       },
       "Categorical: expected a finite largest logit in each row, got nan at position 0"},
      {[&] {
         Categorical::from_probabilities(tensor({0.5, -0.5}));
       },
       "Categorical: expected finite probabilities >= 0, got -0.5 at position 1"},
      {[&] {
         Categorical::from_probabilities(tensor({1, inf}));
       },
       "Categorical: expected finite probabilities >= 0, got inf at position 1"},
      {[&] {
         Categorical::from_probabilities(tensor({NAN, 1}));
       },
       "Categorical: expected finite probabilities >= 0, got nan at position 0"},
      {[&] {
         Categorical::from_probabilities(tensor({{1, 0}, {0, 0}}));
       },
       "Categorical: expected a finite sum > 0 per row, got 0 at position 1"},
      {[&] {
         Categorical::from_probabilities(tensor({3e38, 3e38}));
       },
       "Categorical: expected a finite sum > 0 per row, got inf"},
      {[&] {
         classes.log_prob(tensor({0, 3}, int64));
       },
       "Categorical::log_prob: expected values in [0, K), got 3 at position 1"},
      {[&] {
         classes.log_prob(tensor({-1, 0}, int64));
       },
       "Categorical::log_prob: expected values in [0, K), got -1 at position 0"},
      {[&] { classes.log_prob(two); },
       "Categorical::log_prob: expected values of int64, got float32"},
      {[&] { classes.log_prob(zeros({3}, int64)); },
       "Categorical::log_prob: shapes do not broadcast: (3,) and (2,)"},
      {[&] { classes.sample(Shape::filled(7, 1)); }, "Categorical::sample: samples"},
      {[&] {
         kl(classes, Categorical::from_logits(zeros({2, 4})));
       },
       "kl: numbers of classes differ: 3 and 4"},
      {[&] {
         kl(classes, Categorical::from_logits(zeros({5, 3})));
       },
       "kl: shapes do not broadcast: (2,) and (5,)"},
      {[&] { kl(classes, Categorical::from_logits(x.to(float64))); },
       "kl: dtypes differ: float32 and float64"},
      {[&] {
         Bernoulli::from_logits(tensor({0, NAN}));
       },
       "Bernoulli: expected logits that are not NaN, got nan at position 1"},
      {[&] {
         Bernoulli::from_probabilities(tensor({0.5, 1.5}));
       },
       "Bernoulli: expected probabilities from 0 to 1, got 1.5 at position 1"},
      {[&] {
         Bernoulli::from_probabilities(tensor({NAN, 1}));
       },
       "Bernoulli: expected probabilities from 0 to 1, got nan at position 0"},
      {[&] {
         coins.log_prob(tensor({1, 0.5}));
       },
       "Bernoulli::log_prob: expected values 0 or 1, got 0.5 at position 1"},
      {[&] { coins.sample({-2}); }, "Bernoulli::sample: negative size in shape (-2, 2)"},
      {[&] { kl(coins, Bernoulli::from_logits(ones({3}))); },
       "kl: shapes do not broadcast: (2,) and (3,)"}};
  const uint64_t counter = default_generator().state().counter;
  for (const auto& [call, message] : calls) {
    const std::string found = error_of(call);
    INFO(found);
    CHECK(found.starts_with(message));
  }
  CHECK(default_generator().state().counter == counter);
}

}  // namespace distributions_test
