// The vision transformer against PyTorch, and as its paper and the lectures have it.

#include "gradus/models/vit.h"

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "gradus/models/model_folder.h"
#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"
#include "tests/temporary_folder.h"

using Catch::Matchers::Contains;

namespace gradus::testing {

TEST_CASE("a ViT trains as PyTorch's: 20 losses and the first gradients", "[vit][golden]") {
  const golden::File file("vit");
  for (const Dtype dtype : {float64, float32}) {
    models::ViT model(
        {.image = 9, .channels = 2, .patch = 3, .classes = 5, .layers = 2, .heads = 3, .dim = 12});
    model.to(dtype);
    model.load_state_dict(file.with_prefix("param.", dtype));
    optim::AdamW optimizer(model.parameters(), {.lr = 2e-3, .beta2 = 0.99, .weight_decay = 0.1});
    const Tensor expected = file.get(dtype == float64 ? "float64.losses" : "float32.losses");
    for (int64_t step = 0; step < 20; ++step) {
      const Tensor loss =
          cross_entropy(model(file.get("images", dtype)[step]), file.get("labels")[step]);
      optimizer.zero_grad();
      loss.backward();
      if (step == 0)
        for (const auto& [name, p] : model.named_parameters()) {
          CAPTURE(name);
          CHECK(golden::difference(p.grad(), file.get("grad." + name)) <
                (dtype == float64 ? 1e-9 : 1e-4));
        }
      optimizer.step({.max_grad_norm = 1});
      CAPTURE(step, dtype);
      CHECK(loss.item() == Approx(expected[step].item()).margin(dtype == float64 ? 1e-9 : 1e-4));
    }
  }
}

TEST_CASE("ViT: 224 x 224 x 3 in patches of 16 are 196 tokens and the class token", "[vit]") {
  const NoGrad no_grad;
  const models::ViTConfig config{
      .image = 224, .patch = 16, .classes = 0, .layers = 1, .heads = 4, .dim = 32};
  CHECK(config.patches() == 196);
  const models::ViT model(config);
  CHECK(model.positions.shape() == Shape{1, 197, 32});
  CHECK(model.patch.weight.shape() == Shape{32, 3, 16, 16});
  const Tensor images = randn({2, 3, 224, 224}), embedded = model.embed(images);
  CHECK(embedded.shape() == Shape{2, 196, 32});
  CHECK(model.encode(embedded).shape() == Shape{2, 197, 32});
  CHECK(model.features(images).shape() == Shape{2, 32});
}

TEST_CASE("ViT: a patch is a linear map of its own pixels, in reading order", "[vit]") {
  const NoGrad no_grad;
  const models::ViT model(
      {.image = 6, .patch = 2, .classes = 0, .layers = 1, .heads = 1, .dim = 5});
  const Tensor images = randn({1, 3, 6, 6}), embedded = model.embed(images);
  Tensor changed = images.clone();
  changed.slice(2, 2, 4).slice(3, 4, 6).zero_();  // row 1, column 2: patch 5
  const Tensor other = model.embed(changed);
  for (int64_t i = 0; i < 9; ++i)
    CHECK(golden::same(embedded.select(1, i), other.select(1, i)) == (i != 5));
  const Tensor pixels = images.slice(2, 2, 4).slice(3, 4, 6).reshape({12});
  const Tensor by_hand = matmul(model.patch.weight.reshape({5, 12}), pixels) + model.patch.bias +
                         model.positions.select(1, 6)[0];
  CHECK(max(abs(by_hand - embedded[0][5])).item() < 1e-6);
}

TEST_CASE("ViT: without positions patches are a set", "[vit]") {
  const NoGrad no_grad;
  models::ViT model({.image = 8, .classes = 3, .layers = 2, .pooling = models::Pooling::mean});
  model.to(float64);
  const Tensor tokens = randn({2, 4, 64}, float64);
  const Tensor order = from_data<int64_t>({2, 0, 3, 1});
  const Tensor a = model.encode(tokens), b = model.encode(index_select(tokens, 1, order));
  CHECK(golden::difference(b.select(1, 0), a.select(1, 0)) < 1e-12);
  CHECK(golden::difference(b.slice(1, 1), index_select(a.slice(1, 1), 1, order)) < 1e-12);
}

TEST_CASE("ViT: the class token alone becomes what it becomes among all tokens", "[vit]") {
  models::ViT model({.image = 6, .patch = 2, .classes = 0, .layers = 2, .heads = 2, .dim = 8});
  model.to(float64);
  const Tensor patches = randn({3, 5, 8}, float64).requires_grad_();
  const Tensor dy = randn({3, 1, 8}, float64);
  std::vector<Tensor> inputs = model.parameters();

  inputs.push_back(patches);
  const Tensor alone = model.encode(patches, true), all = model.encode(patches).slice(1, 0, 1);
  CHECK(golden::difference(alone, all) < 1e-12);
  const auto of_alone = grad({alone}, inputs, {.grad_outputs = {dy}, .allow_unused = true});
  const auto of_all = grad({all}, inputs, {.grad_outputs = {dy}, .allow_unused = true});
  for (size_t i = 0; i < inputs.size(); ++i) {
    REQUIRE(of_alone[i].defined() == of_all[i].defined());
    if (of_all[i].defined()) CHECK(golden::difference(of_alone[i], of_all[i]) < 1e-11);
  }
  const Tensor images = randn({2, 3, 6, 6}, float64), untraced = model.features(images);
  const AttentionTrace trace;
  CHECK(golden::difference(model.features(images), untraced) < 1e-12);
  CHECK(trace.weights().back().shape() == Shape{2, 2, 10, 10});
}

TEST_CASE("ViT: a saved model is the same model, and bad input is refused", "[vit]") {
  const TemporaryFolder folder;
  const models::ViTConfig config{.image = 4,
                                 .channels = 1,
                                 .patch = 2,
                                 .heads = 2,
                                 .dim = 8,
                                 .pooling = models::Pooling::mean};
  const models::ViT model(config);
  models::save_model(folder.path, model);
  const models::ViT loaded = models::load_model<models::ViT>(folder.path);
  const NoGrad no_grad;
  const EvalMode eval;
  const Tensor images = randn({3, 1, 4, 4});
  CHECK(golden::same(model(images), loaded(images)));
  CHECK_THROWS_WITH(model(randn({3, 1, 4, 5})),
                    Contains("ViT: expected images (B, 1, 4, 4), got (3, 1, 4, 5)"));
  CHECK_THROWS_WITH(model(randn({1, 4, 4})), Contains("got (1, 4, 4)"));
  CHECK_THROWS_WITH(models::ViT({.image = 28, .patch = 5}),
                    Contains("ViT: patch must divide image: image 28, patch 5"));
  CHECK_THROWS_WITH(models::ViT({.heads = 3, .dim = 64}), Contains("heads must divide dim"));
  CHECK_THROWS_WITH(models::ViT({.classes = 0})(randn({1, 3, 32, 32})), Contains("has no head"));
}

}  // namespace gradus::testing
