// The vision transformer against PyTorch, the paper and the lectures.

#include "gradus/models/vit.h"

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/golden/training_checks.h"
#include "tests/support/vision_checks.h"

using Catch::Matchers::Contains;

namespace gradus::testing::vit_test {

TEST_CASE("ViT trains like PyTorch's: 20 losses and the first gradients", "[vit][golden]") {
  const golden::File file("vit");
  golden::check_training<models::ViT>(
      file,
      {.image = 9, .channels = 2, .patch = 3, .classes = 5, .layers = 2, .heads = 3, .dim = 12},
      [&](const models::ViT& model, int64_t step, Dtype dtype) {
        return std::vector<Tensor>{
            cross_entropy(model(file.get("images", dtype)[step]), file.get("labels")[step])};
      });
}

TEST_CASE("ViT: dropout applies to the class token and patches, and in the blocks", "[vit]") {
  manual_seed(1);
  const models::ViT model({.image = 8,
                           .patch = 4,
                           .classes = 3,
                           .layers = 2,
                           .heads = 2,
                           .dim = 8,
                           .dropout = 0.5,
                           .pooling = models::Pooling::mean});
  const Tensor images = randn({2, 3, 8, 8});
  manual_seed(2);
  const Tensor y = model(images);
  manual_seed(2);
  const Tensor patches = model.patch(images).flatten(2).transpose(1, 2);  // (2, 4, 8)
  const Tensor first = model.class_token.expand({2, 1, 8});
  Tensor x = model.dropout(cat({first, patches}, 1) + model.positions);
  for (const nn::Block& block : model.blocks) {
    CHECK(block.attn.dropout.p == 0.5);
    x = block(x);
  }
  CHECK(golden::difference(y, (*model.head)(mean(model.ln_f(x).slice(1, 1), 1))) < 1e-5);
}

TEST_CASE("ViT: every option reaches the blocks, and norm_eps all norms", "[vit]") {
  const models::ViT model(
      {.image = 8, .layers = 3, .heads = 2, .dim = 8, .hidden = 12, .norm_eps = 0.5});
  CHECK((model.ln_f.eps == 0.5 && model.blocks.size() == 3));
  for (const nn::Block& block : model.blocks) {
    CHECK(block.attn.heads == 2);
    CHECK(block.mlp.fc.weight.shape() == Shape{12, 8});
    for (const nn::Norm& norm : {block.ln1, block.ln2}) CHECK(norm.eps == 0.5);
  }
}

TEST_CASE("ViT: 224 x 224 x 3 in patches of 16 makes 196 tokens and the class token", "[vit]") {
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

TEST_CASE("ViT: parameters are initialised as documented", "[vit]") {
  manual_seed(8);
  const models::ViT model({.image = 32, .patch = 4, .classes = 10, .layers = 2, .dim = 64});
  const auto deviation = [](const Tensor& x) { return std_dev(x.flatten(), 0, 0).item(); };
  int64_t maps = 0, tables = 0, biases = 0;
  for (const auto& [name, p] : model.named_parameters()) {
    CAPTURE(name, p.shape());
    const Tensor x = p.detach();
    if (p.rank() == 2 || p.rank() == 4) {  // Glorot & Bengio 2010, equation 16
      const auto out = static_cast<double>(p.size(0)), in = static_cast<double>(p.numel()) / out;
      const double bound = std::sqrt(6 / (in + out));
      CHECK(max(x).item() == Approx(bound).epsilon(0.02));
      CHECK(min(x).item() == Approx(-bound).epsilon(0.02));
      CHECK(deviation(x) == Approx(bound / std::sqrt(3)).epsilon(0.05));
      ++maps;
    } else if (p.rank() == 3) {  // the deviation of n values has standard error 0.3 / sqrt(2 n)
      const auto n = static_cast<double>(p.numel());
      CHECK(std::abs(deviation(x) - 0.3) < 4 * 0.3 / std::sqrt(2 * n));
      CHECK(std::abs(mean(x).item()) < 4 * 0.3 / std::sqrt(n));
      ++tables;
    } else {
      const bool is_bias = name.ends_with("bias");
      CHECK(golden::same(x, full(x.shape(), is_bias ? 0 : 1)));  // 1: the weight of a norm
      biases += is_bias;
    }
  }
  CHECK(tables == 2);                 // the class token and the positions
  CHECK(maps == 1 + 2 * 4 + 1);       // patches; per block qkv, output and two of the MLP; the head
  CHECK(biases == maps + 2 * 2 + 1);  // and the biases of the norms
}

TEST_CASE("ViT: a patch is a linear map of its own pixels, in row-major order", "[vit]") {
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

TEST_CASE("ViT: without positions the order of patches does not matter", "[vit]") {
  const NoGrad no_grad;
  models::ViT model({.image = 8, .classes = 3, .layers = 2, .pooling = models::Pooling::mean});
  model.to(float64);
  const Tensor tokens = randn({2, 4, 64}, float64);
  const Tensor order = from_data<int64_t>({2, 0, 3, 1});
  const Tensor a = model.encode(tokens), b = model.encode(index_select(tokens, 1, order));
  CHECK(golden::difference(b.select(1, 0), a.select(1, 0)) < 1e-12);
  CHECK(golden::difference(b.slice(1, 1), index_select(a.slice(1, 1), 1, order)) < 1e-12);
}

TEST_CASE("ViT: computing only the class token gives the same class token", "[vit]") {
  models::ViT model({.image = 6, .patch = 2, .classes = 0, .layers = 2, .heads = 2, .dim = 8});
  model.to(float64);
  const Tensor patches = randn({3, 5, 8}, float64).requires_grad_();
  const Tensor dy = randn({3, 1, 8}, float64);
  std::vector<Tensor> inputs = model.parameters();

  inputs.push_back(patches);
  const Tensor alone = model.encode(patches, models::ViT::Tokens::class_token),
               all = model.encode(patches).slice(1, 0, 1);
  CHECK(golden::difference(alone, all) < 1e-12);
  const auto of_alone = grad({alone}, inputs, {.grad_outputs = {dy}, .allow_unused = true});
  const auto of_all = grad({all}, inputs, {.grad_outputs = {dy}, .allow_unused = true});
  for (size_t i = 0; i < inputs.size(); ++i) {
    REQUIRE(of_alone[i].defined() == of_all[i].defined());
    if (of_all[i].defined()) CHECK(golden::difference(of_alone[i], of_all[i]) < 1e-11);
  }
  // A trace does not change what is computed; encode() computes all tokens.
  const Tensor images = randn({2, 3, 6, 6}, float64), untraced = model.features(images);
  const AttentionTrace trace;
  CHECK(golden::same(model.features(images), untraced));
  CHECK(trace.weights().back().shape() == Shape{2, 2, 1, 10});
  CHECK(golden::difference(model.encode(model.embed(images)).select(1, 0), untraced) < 1e-12);
  CHECK(trace.weights().back().shape() == Shape{2, 2, 10, 10});
}

TEST_CASE("ViT: the mean over patches leaves out the class token", "[vit]") {
  const models::ViT model({.image = 6,
                           .patch = 2,
                           .classes = 0,
                           .layers = 1,
                           .heads = 2,
                           .dim = 8,
                           .pooling = models::Pooling::mean});
  const Tensor images = randn({2, 3, 6, 6}), tokens = model.encode(model.embed(images));
  REQUIRE(tokens.shape() == Shape{2, 10, 8});
  Tensor total = zeros({2, 8});
  for (int64_t patch = 1; patch < 10; ++patch) total = total + tokens.select(1, patch);
  CHECK(golden::difference(model.features(images), total / 9.0) < 1e-6);
}

TEST_CASE("ViT: a saved model loads unchanged, and bad input throws", "[vit]") {
  const models::ViTConfig config{.image = 4,
                                 .channels = 1,
                                 .patch = 2,
                                 .heads = 2,
                                 .dim = 8,
                                 .pooling = models::Pooling::mean};
  const models::ViT model(config);
  const auto loaded = saved_and_loaded(model);
  const NoGrad no_grad;
  const EvalMode eval;
  const Tensor images = randn({3, 1, 4, 4});
  CHECK(golden::same(model(images), loaded(images)));
  CHECK_THROWS_WITH(model(randn({3, 1, 4, 5})),
                    Contains("ViT: expected images (B, 1, 4, 4), got (3, 1, 4, 5)"));
  CHECK_THROWS_WITH(model(randn({1, 4, 4})), Contains("got (1, 4, 4)"));
  CHECK_THROWS_WITH(models::ViT({.image = 28, .patch = 5}),
                    Contains("ViT: patch must divide image: image 28, patch 5"));
  CHECK_THROWS_WITH(models::ViT({.patch = 0}), Contains("ViT: patch must divide image"));
  CHECK_THROWS_WITH(models::ViT({.heads = 3, .dim = 64}), Contains("heads must divide dim"));
  CHECK_THROWS_WITH(models::ViT({.classes = 0})(randn({1, 3, 32, 32})), Contains("has no head"));
}

}  // namespace gradus::testing::vit_test
