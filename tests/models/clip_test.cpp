// CLIP against PyTorch and the paper's equations.

#include "gradus/models/clip.h"

#include "gradus/models/data/images/shapes.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/optim/optim.h"
#include "tests/support/compare.h"
#include "tests/support/vision_checks.h"

using Catch::Matchers::Contains;

namespace gradus::testing::clip_test {

namespace {
/// The model of the golden file.
models::CLIPConfig small() {
  return {
      .image =
          {.image = 6, .channels = 2, .patch = 3, .classes = 0, .layers = 1, .heads = 2, .dim = 8},
      .vocab = 9,
      .context = 5,
      .text_layers = 1,
      .text_heads = 2,
      .text_dim = 8,
      .shared = 6};
}
models::TextBatch texts() {
  return {from_data<int64_t>({1, 5, 4, 2, 0, 1, 3, 2, 0, 0, 1, 6, 7, 8, 2}, {3, 5}),
          from_data<int64_t>({4, 3, 5})};
}
}  // namespace

TEST_CASE("text batches: [START] text [END] and padding", "[clip]") {
  const models::WordTokenizer tokenizer("a red circle a a red");
  const models::TextBatch batch = models::text_batch(tokenizer, {"red", "a red circle", ""});
  CHECK(values(batch.ids) == Values{2, 5, 3, 0, 0, 2, 4, 5, 6, 3, 2, 3, 0, 0, 0});
  CHECK(values(batch.lengths) == Values{3, 5, 2});
  CHECK_THROWS_WITH(models::text_batch(tokenizer, {}), Contains("text_batch: "));
  CHECK_THROWS_WITH(models::text_batch(models::WordTokenizer("a", {.special = {"[UNK]"}}), {"a"}),
                    Contains("[PAD]"));
  const models::CharTokenizer strict("abc", {"[PAD]", "[START]", "[END]"});
  CHECK_THROWS_WITH(models::text_batch(strict, {"a", "bz"}),
                    Contains("text_batch: text 1: encode: character \"z\""));
}

TEST_CASE("CLIP: PyTorch's loss and gradients", "[clip][golden]") {
  const golden::File file("vision_models");
  models::CLIP model(small());
  check_golden("clip", model, [&] {
    return model.loss(file.get("images"), {file.get("ids"), file.get("lengths")});
  });
}

TEST_CASE("CLIP: gradients against finite differences, for causal and bidirectional text",
          "[clip]") {
  manual_seed(4);
  for (const bool causal : {false, true})
    for (const models::Pooling pooling : {models::Pooling::token, models::Pooling::mean}) {
      models::CLIPConfig config = small();
      config.causal = causal;
      config.text_pooling = pooling;
      models::CLIP model(config);
      const Tensor images = randn({3, 2, 6, 6}, float64);
      check_gradients(model, [&] { return model.loss(images, texts()); });
    }
}

TEST_CASE("CLIP: padding changes nothing, and similarities are cosines of the features", "[clip]") {
  manual_seed(5);
  const NoGrad no_grad;
  const Tensor images = randn({2, 2, 6, 6});
  for (const bool causal : {false, true})
    for (const models::Pooling pooling : {models::Pooling::token, models::Pooling::mean}) {
      models::CLIPConfig config = small();
      config.causal = causal;
      config.text_pooling = pooling;
      const models::CLIP model(config);
      const Tensor b = model.text_features(texts());
      const Tensor alone =
          model.text_features({texts().ids.slice(0, 1, 2).slice(1, 0, 3), Tensor()});
      CHECK(difference(alone, b.slice(0, 1, 2)) < 1e-5);
      const Tensor a = model.image_features(images);
      CHECK(difference(norm(a, 1), ones({2})) < 1e-6);
      CHECK(difference(norm(b, 1), ones({3})) < 1e-6);
      const Tensor similarity = model.similarity(a, b);
      REQUIRE(similarity.shape() == Shape{2, 3});
      CHECK(similarity[1].select(0, 2).item() == Approx(sum(a[1] * b[2]).item() / 0.07));
    }
}

TEST_CASE("CLIP: the text encoder's options, and features as the mean over a text's own tokens",
          "[clip]") {
  manual_seed(6);
  const NoGrad no_grad;
  models::CLIPConfig config = small();
  config.text_layers = 2, config.text_heads = 3, config.text_dim = 12;
  config.text_pooling = models::Pooling::mean;
  const models::CLIP model(config);
  const models::TextEncoder& text = model.text;
  REQUIRE(text.blocks.size() == 2);
  const Tensor found = text.features(texts());
  for (const auto& [row, length] : {std::pair{0, 4}, {1, 3}, {2, 5}}) {
    const Tensor ids = texts().ids.slice(0, row, row + 1).slice(1, 0, length);
    Tensor x = text.tokens(ids) + text.positions.slice(1, 0, length);
    for (const nn::Block& block : text.blocks) {
      CHECK(block.attn.heads == 3);
      x = block(x);
    }
    CHECK(difference(found[row], mean(text.ln_f(x), 1)[0]) < 1e-5);
  }
}

TEST_CASE("CLIP: the logit scale is clamped at 100", "[clip]") {
  const models::CLIP model(small());
  CHECK(std::exp(model.logit_scale.item()) == Approx(1 / 0.07));
  const Tensor images = randn({3, 2, 6, 6});
  {
    const NoGrad no_grad;
    model.logit_scale.fill_(7);
    const Tensor a = model.image_features(images), b = model.text_features(texts());
    CHECK(difference(model.similarity(a, b), 100 * matmul(a, b.mT())) < 1e-5);
  }
  {
    const EvalMode eval;  // an evaluation changes no parameter, also if gradients are recorded
    (void)model.loss(images, texts());
    CHECK(model.logit_scale.item() == 7);
  }
  model.loss(images, texts()).backward();
  CHECK(std::exp(model.logit_scale.item()) == Approx(100));
  CHECK(model.logit_scale.grad().item() != 0);  // it can decrease again
}

TEST_CASE("CLIP: names the colours and shapes in unseen pictures", "[clip][learns]") {
  manual_seed(1);
  const models::ShapesOptions options{.max_shapes = 1};
  const auto data = models::draw_shapes(0, 1500, options),
             test = models::draw_shapes(1500, 200, options);
  const models::ChannelStats stats = data.images.stats();
  const std::vector<std::string> names = models::shape_captions(options);
  std::string all;
  for (const std::string& name : names) all += name + "\n";
  const models::WordTokenizer tokenizer(all);
  models::CLIP model({.image = {.patch = 8, .classes = 0, .layers = 2, .dim = 48},
                      .vocab = tokenizer.vocab_size(),
                      .context = 5,
                      .text_layers = 1,
                      .text_heads = 2,
                      .text_dim = 32,
                      .shared = 32});
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-3});
  for (int64_t step = 0; step < 800; ++step) {
    const models::ImageBatch batch = data.images.shuffled(32, 2, step, stats);
    optimizer.zero_grad();
    model.loss(batch.images, models::text_batch(tokenizer, captions_of(data, batch.ids)))
        .backward();
    optimizer.step({.max_grad_norm = 1});
  }
  const NoGrad no_grad;
  const Tensor found =
      argmax(model.similarity(model.image_features(test.images.range(0, 200, stats).images),
                              model.text_features(models::text_batch(tokenizer, names))),
             1);
  int right = 0, colours = 0;
  for (size_t i = 0; i < 200; ++i) {
    const std::string& name =
        names[static_cast<size_t>(found[static_cast<int64_t>(i)].item<int64_t>())];
    const std::string& truth = test.captions[i];
    right += name == truth;
    colours += name.substr(0, name.rfind(' ')) == truth.substr(0, truth.rfind(' '));
  }
  CAPTURE(right, colours);
  CHECK(right > 60);  // of 200; there are 35 classes
  CHECK(colours > 180);
}

TEST_CASE("CLIP: a saved model loads unchanged, and bad input throws", "[clip]") {
  const models::CLIP model(small());
  const auto loaded = saved_and_loaded(model);
  const NoGrad no_grad;
  const Tensor images = randn({3, 2, 6, 6});
  CHECK(golden::same(model.loss(images, texts()), loaded.loss(images, texts())));
  CHECK_THROWS_WITH(model.loss(images.slice(0, 1), texts()), Contains("CLIP: 2 images, 3 texts"));
  const models::TextBatch one{texts().ids.slice(0, 0, 1), Tensor()};
  CHECK_THROWS_WITH(model.loss(images.slice(0, 0, 1), one), Contains("CLIP: expected two pairs"));
  CHECK_THROWS_WITH(model.text_features({cat({texts().ids, texts().ids}, 1), Tensor()}),
                    Contains("CLIP: 10 tokens do not fit a context of 5"));
  CHECK_THROWS_WITH(model.text_features({}), Contains("CLIP: expected token ids (B, T) of int64"));
  CHECK_THROWS_WITH(model.text_features({texts().ids + 5, Tensor()}), Contains("embedding"));
  CHECK_THROWS_WITH(model.text_features({ones({3, 5}), Tensor()}),
                    Contains("of int64, none empty, got float32 (3, 5)"));
  for (const auto& [lengths, got] :
       {std::pair{tensor({5, 5, 6}, int64), "lengths 1 to 5, got 5 to 6"},
        {tensor({0, 1, 2}, int64), "lengths 1 to 5, got 0 to 2"},
        {tensor({5, 5}, int64), "3 lengths of int64, got int64 (2,)"},
        {tensor({5, 5, 5}), "3 lengths of int64, got float32 (3,)"}})
    CHECK_THROWS_WITH(model.text_features({texts().ids, lengths}),
                      std::string("CLIP: expected ") + got);
  CHECK_THROWS_WITH(model.similarity(ones({2, 6}), ones({2, 5})), Contains("(2, 6) and (2, 5)"));
  CHECK_THROWS_WITH(models::CLIP({}), Contains("CLIP: vocab"));
  models::CLIPConfig config = small();
  config.text_heads = 3;
  CHECK_THROWS_WITH(models::CLIP(config), Contains("CLIP: text_heads must divide text_dim"));
  config = small();
  config.causal = false;
  config.image.dropout = 0.25;
  const models::CLIP dropping(config);
  for (const auto* blocks : {&dropping.image.blocks, &dropping.text.blocks})
    for (const nn::Block& block : *blocks) {
      CHECK(block.attn.dropout.p == 0.25);
      CHECK(block.mlp.dropout.p == 0.25);
      CHECK_FALSE(block.attn.causal);
    }
  config = small();
  config.image.classes = 2;
  CHECK_THROWS_WITH(models::CLIP(config), Contains("classes must be 0"));
}

}  // namespace gradus::testing::clip_test
