// The masked autoencoder against PyTorch and the paper's equations.

#include "gradus/models/mae.h"

#include "gradus/models/data/images/shapes.h"
#include "gradus/optim/optim.h"
#include "tests/support/compare.h"
#include "tests/support/vision_checks.h"

using Catch::Matchers::Contains;

namespace gradus::testing::mae_test {

namespace {
/// The model of the golden file.
models::MAEConfig small(bool normalise = true) {
  return {
      .encoder =
          {.image = 6, .channels = 2, .patch = 2, .classes = 0, .layers = 2, .heads = 3, .dim = 12},
      .decoder_layers = 1,
      .decoder_heads = 2,
      .decoder_dim = 8,
      .normalise = normalise};
}
}  // namespace

TEST_CASE("patchify: an example by hand, and unpatchify as its inverse", "[mae]") {
  const Tensor image = arange(0, 24, 1, float32).reshape({1, 1, 4, 6}),
               patches = models::patchify(image, 2);
  REQUIRE(patches.shape() == Shape{1, 6, 4});
  CHECK(values(patches[0][0]) == Values{0, 1, 6, 7});
  CHECK(values(patches[0][1]) == Values{2, 3, 8, 9});
  CHECK(values(patches[0][5]) == Values{16, 17, 22, 23});
  const Tensor two = cat({image, image + 100}, 1);
  CHECK(values(models::patchify(two, 2)[0][5]) == Values{16, 17, 22, 23, 116, 117, 122, 123});
  for (const int64_t patch : {1, 2, 3, 6}) {
    const Tensor x = randn({3, 2, 6, 12});
    CHECK(golden::same(models::unpatchify(models::patchify(x, patch), {2, 6, 12}, patch), x));
  }
  CHECK(models::patchify(zeros({0, 3, 4, 4}), 2).shape() == Shape{0, 4, 12});
  const models::ViT vit({.image = 6, .patch = 3, .classes = 0, .layers = 1, .heads = 1, .dim = 5});
  const Tensor x = randn({2, 3, 6, 6});  // pixels in the order of the patch embedding's weights
  CHECK(
      difference(linear(models::patchify(x, 3), vit.patch.weight.reshape({5, 27}), vit.patch.bias),
                 vit.embed(x) - vit.positions.slice(1, 1)) < 1e-5);
  CHECK_THROWS_WITH(models::patchify(x, 4), Contains("patchify: expected images (B, C, H, W) with "
                                                     "sides that 4 divides, got (2, 3, 6, 6)"));
  for (const Shape& shape : {Shape{1, 1, 4, 6}, Shape{1, 1, 6, 4}}) {  // 4 divides one side
    CHECK_THROWS_WITH(models::patchify(zeros(shape), 4), Contains("sides that 4 divides, got"));
    CHECK_THROWS_WITH(models::unpatchify(zeros({1, 1, 16}), {1, shape[2], shape[3]}, 4),
                      Contains("sides that 4 divides, got"));
  }
  CHECK_THROWS_WITH(models::unpatchify(patches, {1, 4, 6}, 0), Contains("unpatchify: expected"));
  CHECK_THROWS_WITH(models::unpatchify(patches[0], {1, 4, 6}, 2), Contains("got (6, 4)"));
  CHECK_THROWS_WITH(models::patchify(x, 0), Contains("patchify: "));
  CHECK_THROWS_WITH(models::patchify({}, 2), Contains("patchify: "));
  CHECK_THROWS_WITH(models::unpatchify(patches, {1, 4, 4}, 2),
                    Contains("unpatchify: expected patches (B, 4, 4), got (1, 6, 4)"));
  CHECK_THROWS_WITH(models::unpatchify(patches, {4, 4}, 2), Contains("an image (C, H, W)"));
}

TEST_CASE("MAE: PyTorch's loss and gradients", "[mae][golden]") {
  const golden::File file("vision_models");
  models::MAE model(small());
  check_golden("mae", model, [&] { return model(file.get("images"), file.get("order")).loss; });
}

TEST_CASE("MAE: gradients against finite differences", "[mae]") {
  manual_seed(2);
  models::MAE model(small());
  const Tensor images = randn({2, 2, 6, 6}, float64), order = model.order(2, 1, 0);
  check_gradients(model, [&] { return model(images, order).loss; });
}

TEST_CASE("MAE: the mask depends only on seed, step and image", "[mae]") {
  models::MAEConfig config = small();
  config.encoder.image = 16;
  const models::MAE model(config);
  const Tensor order = model.order(500, 7, 3);
  REQUIRE(order.shape() == Shape{500, 64});
  CHECK(golden::same(sort(order, 1).values, arange(64).expand({500, 64}).contiguous()));
  const Tensor ids = from_data<int64_t>({499, 20, 3});
  CHECK(golden::same(model.order(3, 7, 3, ids), index_select(order, 0, ids)));
  CHECK_FALSE(golden::same(model.order(500, 8, 3), order));
  CHECK_FALSE(golden::same(model.order(500, 7, 4), order));
  CHECK_FALSE(golden::same(order[0], order[1]));
  const Tensor hidden = model(randn({500, 2, 16, 16}), order).hidden;
  CHECK(golden::same(sum(hidden, 1), full({500}, 48, int64)));
  const Tensor share = mean(hidden, 0);  // each patch's share has standard deviation 0.02
  CHECK(min(share).item() > 0.67);
  CHECK(max(share).item() < 0.83);
  // Both halves of the seed, the step and the id count.
  const int64_t high = int64_t{1} << 32;
  const auto row = [&](uint64_t seed, int64_t step, int64_t id) {
    return values(model.order(1, seed, step, from_data(std::vector<int64_t>{id}, {1})));
  };
  CHECK(row(7, 3, 1) == values(order[1]));
  CHECK(row(7 + static_cast<uint64_t>(high), 3, 1) != row(7, 3, 1));
  CHECK(row(7, 3 + high, 1) != row(7, 3, 1));
  CHECK(row(7, 3, 1 + high) != row(7, 3, 1));
  CHECK_THROWS_WITH(model.order(0, 0, 0), Contains("MAE: expected a batch >= 1"));
  CHECK_THROWS_WITH(model.order(2, 0, 0, tensor({1, 2})), Contains("MAE: expected 2 ids of int64"));
  CHECK_THROWS_WITH(model.order(2, 0, 0, ids), Contains("MAE: expected 2 ids of int64"));
  CHECK_THROWS_WITH(model.order(2, 0, -1), Contains("a step >= 0"));
}

TEST_CASE("MAE: the encoder reads only visible patches, and the loss only masked ones", "[mae]") {
  const NoGrad no_grad;
  const models::MAE model(small(false));
  const Tensor images = randn({3, 2, 6, 6}), order = model.order(3, 5, 0);
  const models::MAEResult result = model(images, order);
  CHECK(values(sum(result.hidden, 1)) == Values{7, 7, 7});  // round(0.75 9)
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t k = 0; k < 9; ++k)
      CHECK(result.hidden[i].select(0, order[i].select(0, k).item<int64_t>()).item<bool>() ==
            (k >= 2));
  const Tensor blank = model.masked(images, result.hidden);
  const models::MAEResult of_blank = model(blank, order);
  CHECK(golden::same(of_blank.patches, result.patches));
  double total = 0;
  const Values pixels = values(models::patchify(images, 2)), painted = values(result.patches),
               hidden = values(result.hidden);
  for (size_t i = 0; i < pixels.size(); ++i)
    total += hidden[i / 8] * (pixels[i] - painted[i]) * (pixels[i] - painted[i]);
  CHECK(result.loss.item() == Approx(total / (3 * 7 * 8)));
}

TEST_CASE("MAE: pictures of the visible and the reconstructed patches", "[mae]") {
  const Tensor images = rand({2, 2, 6, 6});
  for (const bool normalise : {false, true}) {
    const models::MAE model(small(normalise));
    models::MAEResult result = model(images, model.order(2, 1, 1));
    const Tensor picture = model.reconstructed(images, result);
    REQUIRE(picture.shape() == images.shape());
    CHECK_FALSE(picture.requires_grad());
    CHECK(golden::same(model.masked(picture, result.hidden, 0.5),
                       model.masked(images, result.hidden, 0.5)));
    Tensor truth = models::patchify(images, 2);
    CHECK(golden::same(models::patchify(model.masked(images, result.hidden, 0.5), 2),
                       where(result.hidden.unsqueeze(-1), full({}, 0.5), truth)));
    if (normalise)
      truth = (truth - mean(truth, -1, keepdim)) / sqrt(var(truth, -1, 1, keepdim) + 1e-6);
    result.patches = truth;
    CHECK(difference(model.reconstructed(images, result), images) < 1e-6);
  }
}

TEST_CASE("MAE: learns to reconstruct masked patches", "[mae][learns]") {
  manual_seed(1);
  const models::ImageData data = models::draw_shapes(0, 512, {.max_shapes = 1}).images;
  const models::ChannelStats stats = data.stats();
  models::MAE model({.encoder = {.image = 32, .patch = 4, .classes = 0, .layers = 2, .dim = 48},
                     .decoder_layers = 1,
                     .mask_ratio = 0.5,
                     .normalise = false});
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-3});
  const Tensor held_out =
      models::draw_shapes(512, 64, {.max_shapes = 1}).images.range(0, 64, stats).images;
  auto loss_of = [&] {
    const NoGrad no_grad;
    return model(held_out, model.order(64, 9, 0)).loss.item();
  };
  const double before = loss_of();
  for (int64_t step = 0; step < 200; ++step) {
    const models::ImageBatch batch = data.shuffled(32, 4, step, stats);
    const Tensor loss = model(batch.images, model.order(32, 4, step, batch.ids)).loss;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step({.max_grad_norm = 1});
  }
  CAPTURE(before, loss_of());
  CHECK(loss_of() < 0.8);  // predicting the mean colour gives 1
}

TEST_CASE("MAE: a saved model loads unchanged, and bad input throws", "[mae]") {
  const models::MAE model(small());
  const auto loaded = saved_and_loaded(model);
  const NoGrad no_grad;
  const Tensor images = randn({3, 2, 6, 6}), order = model.order(3, 0, 0);
  CHECK(golden::same(model(images, order).patches, loaded(images, order).patches));
  CHECK(golden::same(model.encoder.features(images), loaded.encoder.features(images)));

  CHECK_THROWS_WITH(model(randn({3, 3, 6, 6}), order), Contains("expected images (B, 2, 6, 6)"));
  CHECK_THROWS_WITH(model(zeros({0, 2, 6, 6}), order), Contains("at least one image"));
  for (const Tensor& bad : {Tensor(), order.slice(0, 1), order.to(float32), order + 1,
                            zeros({3, 9}, int64), order.slice(1, 1)})
    CHECK_THROWS_WITH(model(images, bad), Contains("MAE: expected an order (3, 9) of int64"));
  models::MAEConfig config = small();
  config.encoder.image = 7;
  CHECK_THROWS_WITH(models::MAE(config), Contains("patch must divide image: image 7, patch 2"));
  config = small();
  config.mask_ratio = 0.01;
  CHECK_THROWS_WITH(models::MAE(config), Contains("hides 0 of 9 patches"));
  config.mask_ratio = 1;
  CHECK_THROWS_WITH(models::MAE(config), Contains("hides 9 of 9 patches"));
  for (const auto& [ratio, hidden] : {std::pair{0.1, 1}, std::pair{0.9, 8}}) {  // of nine patches
    config.mask_ratio = ratio;
    CHECK(models::MAE(config).config.hidden() == hidden);
  }
  config = small();
  config.encoder.classes = 3;
  CHECK_THROWS_WITH(models::MAE(config), Contains("classes must be 0"));
  config = small();
  config.decoder_heads = 3;
  CHECK_THROWS_WITH(models::MAE(config), Contains("must divide decoder_dim"));
  config = small();
  config.encoder.channels = config.encoder.patch = 1;
  CHECK_THROWS_WITH(models::MAE(config), Contains("one value cannot be normalised"));
  config.normalise = false;
  CHECK_NOTHROW(models::MAE(config));
  config = small();
  config.encoder.channels = 1;  // a grey patch of four values
  CHECK(models::MAE(config).decoder_head.weight.shape() == Shape{4, 8});
  config.encoder.patch = 0;
  CHECK_THROWS_WITH(models::MAE(config), Contains("MAE: expected a patch of 1 or more"));
  config = small();
  config.encoder.dropout = 0.25;
  const models::MAE dropping(config);
  for (const auto* blocks : {&dropping.encoder.blocks, &dropping.decoder_blocks})
    for (const nn::Block& block : *blocks) {
      CHECK(block.attn.dropout.p == 0.25);
      CHECK(block.mlp.dropout.p == 0.25);
    }
}

}  // namespace gradus::testing::mae_test
