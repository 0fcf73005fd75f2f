// Show, Attend and Tell against PyTorch and the paper's equations.

#include "gradus/models/captioner.h"

#include "gradus/models/data/images/shapes.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/optim/optim.h"
#include "tests/support/compare.h"
#include "tests/support/vision_checks.h"

using Catch::Matchers::Contains;
using gradus::models::Captioner;

namespace gradus::testing::captioner_test {

namespace {
/// The model of the golden file.
models::CaptionerConfig small(Recurrence cell) {
  return {.vocab = 9,
          .context = 6,
          .image = 6,
          .channels = 2,
          .filters = 3,
          .convolutions = 2,
          .dim = 5,
          .hidden = 7,
          .cell = cell};
}
/// Calls check(model) for each kind of cell.
template <class Check>
void for_cells(Check check) {
  for (const Recurrence cell :
       {Recurrence::rnn_tanh, Recurrence::rnn_relu, Recurrence::lstm, Recurrence::gru}) {
    CAPTURE(cell);
    manual_seed(3);
    check(Captioner(small(cell)));
  }
}
Tensor ints(const std::vector<int64_t>& n) { return from_data(n, {std::ssize(n)}); }
}  // namespace

TEST_CASE("captioner: dropout applies to embedded words and before the output", "[captioner]") {
  manual_seed(1);
  models::CaptionerConfig config = small(Recurrence::gru);
  config.dropout = 0.5;
  const Captioner model(config);
  const Tensor images = randn({2, 2, 6, 6}), ids = randint(0, 9, {2, 4});
  manual_seed(2);
  const Tensor y = model(images, ids);
  manual_seed(2);
  const Tensor a = model.annotations(images), embedded = model.dropout(model.words(ids));
  Tensor h = tanh(model.first(mean(a, 1)));
  std::vector<Tensor> outputs;
  for (const Tensor& word : unbind(embedded, 1)) {
    const Tensor seen = model.attention(h.unsqueeze(1), a, a).output.squeeze(1);
    const Tensor z = sigmoid(model.gate(h)) * seen;
    h = model.cell(cat({word, z}, -1), {h, {}}).h;
    outputs.push_back(model.readout(cat({h, z}, -1)));
  }
  CHECK(difference(y, model.head(model.dropout(embedded + stack(outputs, 1)))) < 1e-5);
}

TEST_CASE("captioner: PyTorch's loss and gradients", "[captioner][golden]") {
  const golden::File file("vision_models");
  for (const bool lstm : {true, false}) {
    models::CaptionerConfig config = small(lstm ? Recurrence::lstm : Recurrence::gru);
    config.coverage = lstm ? 0.5 : 0;
    Captioner model(config);
    check_golden(lstm ? "captioner_lstm" : "captioner_gru", model, [&] {
      return model.loss(file.get("images"), {file.get("ids"), file.get("captions")});
    });
  }
}

TEST_CASE("captioner: gradients against finite differences", "[captioner]") {
  for_cells([](Captioner model) {
    const Tensor images = randn({2, 2, 6, 6}, float64), ids = randint(0, 9, {2, 5});
    check_gradients(model, [&] { return model.loss(images, {ids, ints({5, 3})}); });
  });
}

TEST_CASE("captioner: decoding word by word equals the forward pass over the whole caption",
          "[captioner]") {
  const NoGrad no_grad;
  for_cells([](const Captioner& model) {
    const Tensor images = randn({3, 2, 6, 6}), ids = randint(0, 9, {6, 5});
    const Tensor rows = ints({0, 0, 1, 1, 2, 2});
    auto decoder = model.decoder(images, 2);
    CHECK(decoder.vocab() == 9);
    const Tensor all = model(index_select(images, 0, rows), ids);
    REQUIRE(all.shape() == Shape{6, 5, 9});
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 2}, {2, 5}})
      CHECK(difference(decoder.next_logits(ids.slice(1, begin, end)), all.select(1, end - 1)) <
            1e-5);
    CHECK(decoder.room() == 1);
    const Tensor moved = ints({5, 1, 0, 3, 2, 2}), next = randint(0, 9, {6, 1});
    decoder.reorder(moved);  // across images, too
    const Tensor others = index_select(images, 0, index_select(rows, 0, moved));
    const Tensor whole = model(others, cat({index_select(ids, 0, moved), next}, 1));
    CHECK(difference(decoder.next_logits(next), whole.select(1, -1)) < 1e-5);
    CHECK_THROWS_WITH(decoder.next_logits(next), Contains("Captioner: expected ids (6, T)"));
    decoder.clear();
    CHECK(decoder.room() == 6);
    CHECK(difference(decoder.next_logits(next), model(others, next).select(1, 0)) < 1e-5);
  });
}

TEST_CASE("captioner: attention maps are probabilities, and padding has no effect", "[captioner]") {
  const NoGrad no_grad;
  for_cells([](const Captioner& model) {
    const Tensor images = randn({2, 2, 6, 6}), ids = randint(0, 9, {2, 5});
    CHECK(model.config.grid() == 2);
    const Tensor looks = model.attention_maps(images, ids);
    REQUIRE(looks.shape() == Shape{2, 5, 2, 2});
    CHECK(difference(sum(looks, {2, 3}), ones({2, 5})) < 1e-6);
    CHECK(min(looks).item() > 0);
    CHECK_FALSE(golden::same(looks.select(1, 0), looks.select(1, 1)));
    Tensor padded = ids.clone();
    padded[1].slice(0, 3).fill_(0);
    const Tensor lengths = ints({5, 3});
    CHECK(golden::same(model.loss(images, {padded, lengths}), model.loss(images, {ids, lengths})));
    const double both =
        4 * model.loss(images.slice(0, 0, 1), {ids.slice(0, 0, 1), {}}).item() +
        2 * model.loss(images.slice(0, 1), {ids.slice(0, 1).slice(1, 0, 3), {}}).item();
    CHECK(model.loss(images, {ids, lengths}).item() == Approx(both / 6));
    // An empty caption: [START] and [END] alone.
    const double empty =
        4 * model.loss(images.slice(0, 0, 1), {ids.slice(0, 0, 1), {}}).item() +
        model.loss(images.slice(0, 1), {ids.slice(0, 1).slice(1, 0, 2), {}}).item();
    CHECK(model.loss(images, {ids, ints({5, 2})}).item() == Approx(empty / 5));
  });
}

TEST_CASE("captioner: annotations are in row-major order of the feature map", "[captioner]") {
  manual_seed(4);
  const NoGrad no_grad;
  models::CaptionerConfig config = small(Recurrence::gru);
  config.image = 16, config.filters = 8, config.convolutions = 1;
  const Captioner model(config);
  const Tensor images = randn({1, 2, 16, 16});
  Tensor other = images.clone();
  other.slice(2, 0, 1).slice(3, 15, 16).fill_(9);  // the top right corner
  // The first convolution sees it in row 0 and column 7 of 8 x 8, the second one place further.
  const Tensor change = abs(model.annotations(other) - model.annotations(images));
  const double near = sum(change.reshape({8, 8, 8}).slice(0, 0, 2).slice(1, 6)).item();
  CHECK(near > 0.01);
  CHECK(sum(change).item() == Approx(near).epsilon(1e-4));
}

TEST_CASE("captioner: attention maps are without dropout, in training too", "[captioner]") {
  models::CaptionerConfig config = small(Recurrence::lstm);
  config.dropout = 0.5;
  const Captioner model(config);
  const Tensor images = randn({2, 2, 6, 6}), ids = randint(0, 9, {2, 5});
  const Tensor looks = model.attention_maps(images, ids);
  CHECK_FALSE(looks.requires_grad());
  const EvalMode eval;
  CHECK(golden::same(model.attention_maps(images, ids), looks));
}

TEST_CASE("captioner: greedy decoding takes the most likely word and ends at [END]",
          "[captioner]") {
  const NoGrad no_grad;
  const Tensor images = randn({3, 2, 6, 6});
  for_cells([&](const Captioner& model) {
    const int64_t start = 1;
    std::vector<int64_t> by_hand{start};
    while (std::ssize(by_hand) < 6)
      by_hand.push_back(
          argmax(
              model(images.slice(0, 0, 1), from_data(by_hand, {1, std::ssize(by_hand)}))[0].select(
                  0, -1),
              0)
              .item<int64_t>());
    const int64_t stop = by_hand[3];  // ends after two words or earlier
    std::vector<int64_t> expected;
    for (size_t i = 1; by_hand[i] != stop; ++i) expected.push_back(by_hand[i]);
    const auto found =
        model.captions(images, {.start = start, .stop = stop, .beams = 1, .tokens = 5});
    REQUIRE(found.size() == 3);
    CHECK(found[0].tokens == expected);
    CHECK(found[0].stopped);
    const auto beams =
        model.captions(images, {.start = start, .stop = stop, .beams = 4, .tokens = 5});
    CHECK(beams[0].score >= found[0].score - 1e-9);
  });
}

TEST_CASE("captioner: names the colour and shape in unseen pictures", "[captioner][learns]") {
  manual_seed(1);
  const models::ShapesOptions options{.max_shapes = 1};
  const auto data = models::draw_shapes(0, 1500, options),
             test = models::draw_shapes(1500, 100, options);
  const models::ChannelStats stats = data.images.stats();
  std::string all;
  for (const std::string& name : models::shape_captions(options)) all += name + "\n";
  const models::WordTokenizer tokenizer(all);
  const Captioner model(
      {.vocab = tokenizer.vocab_size(), .context = 5, .filters = 16, .dim = 16, .hidden = 32});
  optim::AdamW optimizer(model.parameters(), {.lr = 5e-3});
  for (int64_t step = 0; step < 450; ++step) {
    const models::ImageBatch batch = data.images.shuffled(32, 2, step, stats);
    optimizer.zero_grad();
    model.loss(batch.images, models::text_batch(tokenizer, captions_of(data, batch.ids)))
        .backward();
    optimizer.step({.max_grad_norm = 1});
  }
  const auto found = model.captions(
      test.images.range(0, 100, stats).images,
      {.start = tokenizer.special("[START]"), .stop = tokenizer.special("[END]"), .tokens = 4});
  int right = 0;
  for (size_t i = 0; i < 100; ++i) right += tokenizer.decode(found[i].tokens) == test.captions[i];
  CHECK(right > 60);  // of 100; there are 35 classes
}

TEST_CASE("captioner: a saved model loads unchanged, and bad input throws", "[captioner]") {
  const NoGrad no_grad;
  const Tensor images = randn({2, 2, 6, 6}), ids = randint(0, 9, {2, 5});
  for_cells([&](const Captioner& model) {
    const Captioner loaded = saved_and_loaded(model);
    CHECK(golden::same(model(images, ids), loaded(images, ids)));
    CHECK(loaded.config.cell == model.config.cell);
    CHECK(model.cell.cell == model.config.cell);
  });
  const Captioner model(small(Recurrence::gru));
  CHECK_THROWS_WITH(model(randn({2, 2, 6, 5}), ids),
                    Contains("Captioner: expected images (B, 2, 6, 6), got (2, 2, 6, 5)"));
  CHECK_THROWS_WITH(model(zeros({0, 2, 6, 6}), ids), Contains("Captioner: expected images"));
  CHECK_THROWS_WITH(model(images, ids.slice(0, 1)), Contains("2 images, 1 captions"));
  CHECK_THROWS_WITH(model(images, ids.to(float32)), Contains("Captioner: expected words (B, T)"));
  CHECK_THROWS_WITH(model(images, cat({ids, ids}, 1)), Contains("10 tokens do not fit a context"));
  // A context of 6 holds [START] and five words, and [END] is not read.
  const Tensor longest = randint(0, 9, {2, 8});
  CHECK(model(images, longest.slice(1, 0, 6)).shape() == Shape{2, 6, 9});
  CHECK_THROWS_WITH(model(images, longest.slice(1, 0, 7)), Contains("7 tokens do not fit"));
  CHECK(std::isfinite(model.loss(images, {longest.slice(1, 0, 7), {}}).item()));
  CHECK_THROWS_WITH(model.loss(images, {longest, {}}), Contains("8 tokens do not fit"));
  CHECK_THROWS_WITH(model(images, ids + 9), Contains("embedding"));
  CHECK_THROWS_WITH(model.loss(images, {ids, ints({5, 1})}),
                    Contains("Captioner: expected captions of at least [START] and [END]"));
  CHECK_THROWS_WITH(model.loss(images, {ids, ints({5, 6})}),
                    Contains("lengths 1 to 5, got 5 to 6"));
  CHECK_THROWS_WITH(model.loss(images, {}), Contains("Captioner: expected token ids"));
  CHECK_THROWS_WITH(model.decoder(images, 0), Contains("Captioner: expected from 1 to"));
  {
    const GradMode grad(true);
    CHECK_THROWS_WITH(model.decoder(images, 1), Contains("no gradients flow through a decoder"));
  }
  CHECK_THROWS_WITH(Captioner({}), Contains("Captioner: vocab"));
}

}  // namespace gradus::testing::captioner_test
