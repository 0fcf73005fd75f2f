// A convolutional network with self-attention against PyTorch and the paper's equations.

#include "gradus/models/cnn_attention.h"

#include "gradus/models/data/images/shapes.h"
#include "gradus/models/simclr.h"
#include "gradus/optim/optim.h"
#include "tests/support/compare.h"
#include "tests/support/vision_checks.h"

using Catch::Matchers::Contains;
using gradus::models::CNNAttention;

namespace gradus::testing::cnn_attention_test {

namespace {
/// The model of the golden file.
models::CNNAttentionConfig small() {
  return {.image = 10, .channels = 2, .classes = 5, .filters = 4};
}
}  // namespace

TEST_CASE("CNN with attention: PyTorch's loss and gradients", "[cnn_attention][golden]") {
  const golden::File file("vision_models");
  CNNAttention model(small());
  check_golden("cnn_attention", model,
               [&] { return cross_entropy(model(file.get("large_images")), file.get("labels")); });
}

TEST_CASE("CNN with attention: gradients against finite differences", "[cnn_attention]") {
  manual_seed(2);
  CNNAttention model(small());
  {
    const NoGrad no_grad;
    model.attention->gamma.fill_(0.7);
  }
  const Tensor images = randn({3, 2, 10, 10}, float64), dy = randn({3, 5}, float64);
  check_gradients(model, [&] { return sum(model(images) * dy); });
}

TEST_CASE("CNN with attention: initially it equals the network without attention",
          "[cnn_attention]") {
  manual_seed(3);
  CNNAttention model(small());
  models::CNNAttentionConfig config = small();
  config.attention = false;
  CNNAttention without(config);
  CHECK(without.num_parameters() == model.num_parameters() - (2 * (8 + 1) + 8 * 8 + 8 + 1));
  without.load_state_dict(model.state_dict(), false);
  const Tensor images = randn({3, 2, 10, 10});
  CHECK(golden::same(model(images), without(images)));
  sum(model(images)).backward();
  CHECK(model.attention->gamma.grad().item() != 0);
  CHECK_THROWS_WITH(without.attention_maps(images),
                    Contains("CNNAttention: this model has no attention"));
}

TEST_CASE("CNN with attention: each position attends to all, by the formula", "[cnn_attention]") {
  manual_seed(4);
  const NoGrad no_grad;
  const CNNAttention model(small());
  const Tensor images = randn({2, 2, 10, 10}), looks = model.attention_maps(images);
  REQUIRE(looks.shape() == Shape{2, 4, 2, 2});
  CHECK(difference(sum(looks, {2, 3}), ones({2, 4})) < 1e-6);
  // The layer alone, position by position.
  const models::SelfAttention2d layer(16);  // queries and keys of size 2
  layer.gamma.fill_(0.5);
  const Tensor x = randn({1, 16, 3, 2}), y = layer(x);
  const Tensor f = layer.key(x), g = layer.query(x), h = layer.value(x);
  CHECK(f.shape() == Shape{1, 2, 3, 2});
  auto at = [](const Tensor& map, int64_t place) { return map[0].flatten(1).select(1, place); };
  for (int64_t j = 0; j < 6; ++j) {
    double total = 0;
    Tensor o = zeros({16});
    for (int64_t i = 0; i < 6; ++i) {
      const double weight = std::exp(sum(at(f, i) * at(g, j)).item());
      total += weight;
      o += weight * at(h, i);
    }
    CHECK(difference(at(y, j), at(x, j) + 0.5 * o / total) < 1e-6);
  }
  // Equivariance: permuted positions in, permuted positions out.
  CHECK(difference(layer(flip(x, {2, 3})), flip(y, {2, 3})) < 1e-6);
}

TEST_CASE("CNN with attention: learns colours and shapes, and gamma changes",
          "[cnn_attention][learns]") {
  manual_seed(1);
  const auto split =
      models::split_images(models::draw_shapes(0, 3100, {.max_shapes = 1}).images, 3000);
  const models::ChannelStats stats = split.train.stats();
  const CNNAttention model({.classes = split.train.classes(), .filters = 12});
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  for (int64_t step = 0; step < 400; ++step) {
    const models::ImageBatch batch = split.train.shuffled(32, 2, step, stats);
    optimizer.zero_grad();
    cross_entropy(model(batch.images), batch.labels).backward();
    optimizer.step({.max_grad_norm = 1});
  }
  const NoGrad no_grad;
  const models::ImageBatch test = split.test.range(0, 100, stats);
  const double right = mean(argmax(model(test.images), 1) == test.labels).item();
  CAPTURE(model.attention->gamma.item());
  CHECK(right > 0.8);  // there are 35 classes
  CHECK(std::abs(model.attention->gamma.item()) > 1e-3);
}

TEST_CASE("CNN with attention: a saved model loads unchanged, and bad input throws",
          "[cnn_attention]") {
  const CNNAttention model(small());
  const auto loaded = saved_and_loaded(model);
  const NoGrad no_grad;
  const Tensor images = randn({2, 2, 10, 10});
  CHECK(golden::same(model(images), loaded(images)));
  CHECK(model(zeros({0, 2, 10, 10})).shape() == Shape{0, 5});
  CHECK_THROWS_WITH(model(randn({2, 3, 10, 10})),
                    Contains("CNNAttention: expected images (B, 2, 10, 10), got (2, 3, 10, 10)"));
  CHECK_THROWS_WITH(model({}), Contains("CNNAttention: expected images"));
  CHECK_THROWS_WITH(CNNAttention({.image = 3}), Contains("CNNAttention: image"));
  CHECK_THROWS_WITH(CNNAttention({.classes = 0})(randn({1, 3, 32, 32})), Contains("has no head"));
}

TEST_CASE("SimCLR: trains a CNN as well as a ViT", "[simclr]") {
  manual_seed(6);
  models::CNNAttentionConfig encoder = small();
  encoder.classes = 0;
  using SimCLR = models::SimCLR<CNNAttention>;
  SimCLR model({.encoder = encoder, .projection_hidden = 6, .projection = 4});
  CHECK(SimCLR::Config{}.encoder.classes == 0);
  const Tensor a = randn({3, 2, 10, 10}, float64), b = randn({3, 2, 10, 10}, float64);
  check_gradients(model, [&] { return model.loss(a, b); });
  const TemporaryFolder folder;
  models::save_model(folder.path, model);
  CHECK_THROWS_WITH(models::load_model<models::SimCLR<models::ViT>>(folder.path),
                    Contains("config.json"));
}

}  // namespace gradus::testing::cnn_attention_test
