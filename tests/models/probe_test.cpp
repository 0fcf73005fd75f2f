// Linear probes and nearest neighbours.

#include "gradus/models/probe.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "tests/golden/golden.h"
#include "tests/support/compare.h"

using Catch::Matchers::Contains;

namespace gradus::testing::probe_test {

namespace {
/// n points around a random centre per class.
models::LabelledFeatures clusters(int64_t n, int64_t dim, int64_t classes, double spread) {
  manual_seed(5);
  const Tensor centres = randn({classes, dim});
  manual_seed(static_cast<uint64_t>(n));
  const Tensor labels = randint(0, classes, {n});
  return {index_select(centres, 0, labels) + spread * randn({n, dim}), labels};
}
}  // namespace

TEST_CASE("nearest neighbours: a vote computed by hand", "[probe]") {
  // Similarities to (1, 0): 1, 0.8, 0.6, -1, for vectors of any length.
  const models::LabelledFeatures train{tensor({{3, 0}, {4, 3}, {6, 8}, {-1, 0}}, float64),
                                       from_data<int64_t>({0, 2, 2, 1})};
  const Tensor query = tensor({{2, 0}, {0, 0}}, float64);
  auto vote = [&](int64_t k, double temperature) {
    return models::nearest_neighbours(train, query, {.k = k, .temperature = temperature})
        .select(0, 0)
        .item<int64_t>();
  };
  CHECK(vote(1, 0) == 0);
  CHECK(vote(2, 0) == 0);  // one vote each: the smaller class
  CHECK(vote(3, 0) == 2);
  CHECK(vote(3, 0.07) == 0);    // 1 against exp(-0.2 / 0.07) + exp(-0.4 / 0.07) = 0.061
  CHECK(vote(3, 1) == 2);       // 1 against 0.82 + 0.67
  CHECK(vote(9, 1e-300) == 0);  // all four vote; the nearest decides
  CHECK(models::neighbour_accuracy(train, {query.slice(0, 0, 1), tensor({2}, int64)},
                                   {.k = 3, .temperature = 0}) == 1);
  // At the lowest temperature the nearest decides, whatever its class: (4, 3) itself, of class 2.
  const Tensor nearest =
      models::nearest_neighbours(train, tensor({{4, 3}}, float64), {.k = 4, .temperature = 1e-300});
  CHECK(nearest.item<int64_t>() == 2);
}

TEST_CASE("nearest neighbours: the same in blocks and all at once", "[probe]") {
  const auto train = clusters(700, 12, 4, 1), test = clusters(601, 12, 4, 1);
  const Tensor found = models::nearest_neighbours(train, test.features, {.k = 5});
  for (const int64_t i : {0, 255, 256, 511, 600})
    CHECK(
        golden::same(models::nearest_neighbours(train, test.features.slice(0, i, i + 1), {.k = 5}),
                     found.slice(0, i, i + 1)));
}

TEST_CASE("linear probe: the boundary that PyTorch's AdamW finds after seven steps", "[probe]") {
  const models::LabelledFeatures train{tensor({{0}, {1}, {2}, {3}, {5}, {8}, {9}}, float64),
                                       from_data<int64_t>({0, 0, 1, 0, 1, 1, 1})};
  // All of class 1, so that the accuracy is the share of 0, 0.001, ..., 9.999 above the boundary.
  const models::LabelledFeatures test{arange(10000).to(float64).reshape({10000, 1}) / 1000.0,
                                      ones({10000}, int64)};
  // 3.21873 in PyTorch, with standardised features, weight decay of the weight alone, and a cosine
  // schedule.
  CHECK(models::linear_probe(train, test, {.steps = 7, .lr = 0.3, .weight_decay = 0.5}) ==
        Approx(0.6781).margin(1e-5));
}

TEST_CASE("linear probe: finds a separating plane at any scale of the features", "[probe]") {
  const auto train = clusters(500, 8, 5, 0.3), test = clusters(300, 8, 5, 0.3);
  const double accuracy = models::linear_probe(train, test);
  CHECK(accuracy > 0.95);
  CHECK(models::linear_probe(train, test) == accuracy);
  // A constant feature, one with a large mean, and one a thousandth of the size change nothing.
  auto changed = [](const models::LabelledFeatures& data) {
    const Tensor x = data.features;
    return models::LabelledFeatures{cat({x.slice(1, 0, 1) / 1000, x.slice(1, 1, 2) + 100,
                                         x.slice(1, 2), full({x.size(0), 1}, 0.1)},
                                        1),
                                    data.labels};
  };
  CHECK(models::linear_probe(changed(train), changed(test)) == Approx(accuracy).margin(0.01));
  const Tensor noise = randn({500, 8});
  CHECK(models::linear_probe({noise, train.labels}, test) < 0.5);
}

TEST_CASE("linear probe: a feature constant in training is ignored later", "[probe]") {
  const auto train = clusters(500, 8, 5, 0.3), test = clusters(300, 8, 5, 0.3);
  const double accuracy = models::linear_probe(train, test);
  const auto with = [](const models::LabelledFeatures& data, const Tensor& column) {
    return models::LabelledFeatures{cat({data.features, column}, 1), data.labels};
  };
  // Features with a deviation of 0, or of rounding size, are not divided by it.
  for (const double constant : {0.0, 0.1, -7.3}) {
    CAPTURE(constant);
    const Tensor rounding = 1e-7 * constant * randn({500, 1});
    const Tensor later = (constant == 0 ? 1e-3 : 1e-3 * std::abs(constant)) * randn({300, 1});
    CHECK(models::linear_probe(with(train, constant + rounding), with(test, constant + later)) ==
          Approx(accuracy).margin(0.01));
  }
  // Constant features only: the most frequent class.
  const models::LabelledFeatures same{full({6, 2}, 0.1), from_data<int64_t>({1, 1, 0, 1, 2, 1})};
  CHECK(models::linear_probe(same, same) == Approx(4.0 / 6));
}

TEST_CASE("linear probe: reaches the minimum of its convex loss", "[probe]") {
  // Two classes that overlap on a line: the best boundary for x ~ N(-+1, 1) is 0, with 84% right.
  manual_seed(3);
  const Tensor labels = randint(0, 2, {4000});
  const models::LabelledFeatures data{
      randn({4000, 1}) + (2.0 * labels.to(float32) - 1.0).reshape({4000, 1}), labels};
  const double bayes = mean((data.features.reshape({4000}) > 0).to(int64) == data.labels).item();
  CHECK(models::linear_probe(data, data) == Approx(bayes).margin(0.01));
  const Tensor learnt = data.features.clone().requires_grad_();  // gradients do not flow to it
  CHECK(models::linear_probe({learnt, labels}, {learnt, labels}) == Approx(bayes).margin(0.01));
  CHECK_FALSE(learnt.grad().defined());
  const NoGrad no_grad;  // does not prevent training
  CHECK(models::linear_probe(data, data) == Approx(bayes).margin(0.01));
}

TEST_CASE("probes: 10,000 examples take seconds, and bad input throws", "[probe]") {
  const auto train = clusters(10000, 128, 10, 1), test = clusters(2000, 128, 10, 1);
  const auto start = std::chrono::steady_clock::now();
  CHECK(models::linear_probe(train, test) > 0.99);
  const auto middle = std::chrono::steady_clock::now();
  CHECK(models::neighbour_accuracy(train, test) > 0.99);
  const auto end = std::chrono::steady_clock::now();
  using Seconds = std::chrono::duration<double>;
  INFO("linear " << Seconds(middle - start).count() << " s, neighbours "
                 << Seconds(end - middle).count() << " s");
  CHECK(Seconds(end - start).count() < 60);  // 1 s on two free cores

  const models::LabelledFeatures good = clusters(20, 3, 2, 1);
  for (const models::LabelledFeatures& bad :
       {models::LabelledFeatures{}, models::LabelledFeatures{good.features, {}},
        models::LabelledFeatures{good.features, good.labels - 2},
        models::LabelledFeatures{good.features.slice(0, 1), good.labels},
        models::LabelledFeatures{good.features[0], good.labels},
        models::LabelledFeatures{good.features.to(int64), good.labels},
        models::LabelledFeatures{zeros({0, 3}), zeros({0}, int64)}}) {
    CHECK_THROWS_WITH(models::linear_probe(bad, good), Contains("linear_probe: expected"));
    CHECK_THROWS_WITH(models::linear_probe(good, bad), Contains("linear_probe: expected"));
    CHECK_THROWS_WITH(models::neighbour_accuracy(good, bad), Contains("nearest_neighbours: "));
  }
  // Classes absent from the training set are never predicted, and no error.
  CHECK(models::linear_probe({good.features, zeros({20}, int64)}, good) ==
        mean(good.labels == 0).item());
  CHECK_THROWS_WITH(models::linear_probe({good.features, good.labels + (1 << 20)}, good),
                    Contains("expected labels below 2^20"));
  const models::LabelledFeatures last{good.features, full({20}, (1 << 20) - 1, int64)};
  CHECK(models::nearest_neighbours(last, good.features.slice(0, 0, 1)).item<int64_t>() ==
        (1 << 20) - 1);
  CHECK_THROWS_WITH(models::nearest_neighbours({good.features, last.labels + 1}, good.features),
                    Contains("expected labels below 2^20, got 1048576"));
  CHECK_THROWS_WITH(models::nearest_neighbours(good, good.features.to(float64)),
                    Contains("training and test features differ"));
  CHECK_THROWS_WITH(models::nearest_neighbours(good, good.features, {.temperature = -1}),
                    Contains("a temperature >= 0, got 20 and -1"));
  CHECK_THROWS_WITH(models::linear_probe(good, {good.features.slice(1, 1), good.labels}),
                    Contains("training and test features differ"));
  CHECK_THROWS_WITH(models::linear_probe(good, good, {.steps = 0}), Contains("steps >= 1"));
  CHECK_THROWS_WITH(models::nearest_neighbours(good, good.features, {.k = 0}), Contains("k >= 1"));
}

}  // namespace gradus::testing::probe_test
