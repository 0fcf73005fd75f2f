// SimCLR against the paper's equations.

#include "gradus/models/simclr.h"

#include "gradus/models/data/images/augment.h"
#include "gradus/models/data/images/shapes.h"
#include "gradus/models/probe.h"
#include "gradus/nn/metrics.h"
#include "gradus/optim/optim.h"
#include "tests/support/compare.h"
#include "tests/support/vision_checks.h"

using Catch::Matchers::Contains;

namespace gradus::testing::simclr_test {

namespace {
using SimCLR = models::SimCLR<models::ViT>;

SimCLR::Config small() {
  return {
      .encoder =
          {.image = 6, .channels = 2, .patch = 3, .classes = 0, .layers = 1, .heads = 2, .dim = 8},
      .projection_hidden = 7,
      .projection = 5};
}
}  // namespace

TEST_CASE("SimCLR: the loss equals the paper's equation, written out", "[simclr]") {
  manual_seed(1);
  SimCLR model(small());
  model.to(float64);
  const Tensor a = randn({3, 2, 6, 6}, float64), b = randn({3, 2, 6, 6}, float64);
  const nn::Linear &in = model.head.in, &out = model.head.out;
  auto project = [&](const Tensor& x) {
    const Tensor h = model.encoder.features(x);
    return matmul(relu(matmul(h, in.weight.mT()) + in.bias), out.weight.mT()) + out.bias;
  };
  const Tensor z = cat({project(a), project(b)}, 0);
  double total = 0;
  for (int64_t i = 0; i < 6; ++i) {
    auto similarity = [&](int64_t k) {
      return std::exp(cosine_similarity(z[i], z[k], 0).item() / model.config.temperature);
    };
    double others = 0;
    for (int64_t k = 0; k < 6; ++k) others += k == i ? 0 : similarity(k);
    total -= std::log(similarity((i + 3) % 6) / others) / 6;
  }
  CHECK(model.loss(a, b).item() == Approx(total).epsilon(1e-10));
  check_gradients(model, [&] { return model.loss(a, b); });
}

TEST_CASE("SimCLR: learns shapes without labels", "[simclr][learns]") {
  manual_seed(1);
  const models::ImageData data = models::draw_shapes(0, 1200, {.max_shapes = 1}).images;
  const models::ChannelStats stats = data.stats();
  SimCLR model(
      {.encoder =
           {.patch = 8, .classes = 0, .layers = 2, .dim = 32, .pooling = models::Pooling::mean},
       .projection_hidden = 64,
       .projection = 32,
       .temperature = 0.2});
  auto accuracy = [&] {
    const NoGrad no_grad;
    const models::ImageBatch train = data.range(0, 1000, stats),
                             test = data.range(1000, 200, stats);
    return models::neighbour_accuracy({model.encoder.features(train.images), train.labels},
                                      {model.encoder.features(test.images), test.labels}, {.k = 5});
  };
  const models::AugmentOptions options{.shift = 4, .flip = 0.5, .brightness = 0.2};
  const auto views = [&](const models::ImageBatch& batch, int64_t step) {
    const auto view = [&](int64_t i) {
      return models::normalize(models::augment(batch.images, options, 1, 2 * step + i, batch.ids),
                               stats);
    };
    return std::pair{view(0), view(1)};
  };
  // How often a view of an unseen image is nearest to its other view among 199 views, and the loss.
  const Tensor twin = roll(arange(200), 100);
  const auto found = [&] {
    const NoGrad no_grad;
    const auto [a, b] = views(data.range(1000, 100), 1000);
    const Tensor z = normalize(model(cat({a, b}, 0)), 1);
    const Tensor fit = masked_fill(matmul(z, z.mT()) / 0.2, eye(200).to(boolean), -INFINITY);
    CHECK(model.loss(a, b).item() == Approx(cross_entropy(fit, twin).item()).epsilon(1e-4));
    return nn::accuracy(fit, twin);
  };
  const double before = accuracy(), found_before = found();
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-3});
  for (int64_t step = 0; step < 200; ++step) {
    const auto [a, b] = views(data.shuffled(64, 4, step), step);
    optimizer.zero_grad();
    model.loss(a, b).backward();
    optimizer.step({.max_grad_norm = 1});
  }
  const double after = accuracy(), found_after = found();
  CAPTURE(before, after, found_before, found_after);
  CHECK(after > 1.5 * before);
  CHECK(found_after > 0.5);
}

TEST_CASE("SimCLR: a saved model loads unchanged, and bad input throws", "[simclr]") {
  const SimCLR model(small());
  const auto loaded = saved_and_loaded(model);
  const NoGrad no_grad;
  const Tensor images = randn({3, 2, 6, 6});
  CHECK(model(images).shape() == Shape{3, 5});
  CHECK(model.head.in.weight.shape() == Shape{7, 8});
  CHECK(golden::same(model(images), loaded(images)));
  CHECK_THROWS_WITH(model.loss(images.slice(0, 0, 1), images.slice(0, 0, 1)),
                    Contains("SimCLR: expected two images or more"));
  CHECK(std::isfinite(model.loss(images.slice(0, 0, 2), images.slice(0, 1)).item()));
  CHECK_THROWS_WITH(model.loss(images, images.slice(0, 1)),
                    Contains("got (3, 2, 6, 6) and (2, 2, 6, 6)"));
  CHECK_THROWS_WITH(model.loss({}, images), Contains("SimCLR: expected two views"));
  CHECK_THROWS_WITH(model.loss(images[0], images[0]), Contains("SimCLR: expected two views"));
  SimCLR::Config config = small();
  config.temperature = 0;
  CHECK_THROWS_WITH(SimCLR(config), Contains("SimCLR: temperature"));
  config = small();
  config.encoder.classes = 10;
  CHECK_THROWS_WITH(SimCLR(config), Contains("classes must be 0, got 10"));
  CHECK(SimCLR::Config{}.encoder.classes == 0);
}

}  // namespace gradus::testing::simclr_test
