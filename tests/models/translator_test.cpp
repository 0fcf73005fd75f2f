// What holds for every translation model: Transformers with pre-norm and post-norm, and recurrent
// ones with each cell and score.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "gradus/models/data/text/synthetic_pairs.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/rnn_translator.h"
#include "gradus/models/transformer.h"
#include "gradus/optim/optimizers.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace translator_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;
using models::RNNTranslator, models::Transformer;

namespace {

/// Calls check(model) for models with 11 source tokens, 13 target tokens and a context of 12.
template <class Check>
void for_all_models(Check check) {
  for (const bool pre_norm : {false, true}) {
    CAPTURE(pre_norm);
    manual_seed(3);
    check(Transformer({.source_vocab = 11,
                       .target_vocab = 13,
                       .context = 12,
                       .layers = 2,
                       .heads = 2,
                       .dim = 8,
                       .dropout = 0,
                       .pre_norm = pre_norm}));
  }
  for (const Recurrence cell :
       {Recurrence::rnn_tanh, Recurrence::rnn_relu, Recurrence::lstm, Recurrence::gru})
    for (const nn::Score score :
         {nn::Score::dot, nn::Score::scaled_dot, nn::Score::bilinear, nn::Score::additive}) {
      const int64_t layers = score == nn::Score::additive ? 2 : 1;
      CAPTURE(cell, score, layers);
      manual_seed(4);
      check(RNNTranslator({.source_vocab = 11,
                           .target_vocab = 13,
                           .context = 12,
                           .layers = layers,
                           .dim = 6,
                           .hidden = 8,
                           .dropout = 0,
                           .cell = cell,
                           .score = score}));
    }
}

Tensor ints(const std::vector<int64_t>& n) { return from_data(n, {std::ssize(n)}); }

}  // namespace

TEST_CASE("translators: decoding token by token equals the forward pass over the whole target",
          "[translator]") {
  const NoGrad no_grad;
  for_all_models([](const auto& model) {
    const Tensor source = randint(0, 11, {3, 7}), lengths = ints({7, 2, 5});
    const Tensor target = randint(0, 13, {6, 9}), rows = ints({0, 0, 1, 1, 2, 2});
    auto decoder = model.decoder(source, lengths, 2);
    CHECK(decoder.vocab() == 13);
    const Tensor all = model(index_select(source, 0, rows), index_select(lengths, 0, rows), target);
    for (int64_t t = 0; t < 9; t += t == 2 ? 3 : 1) {  // one at a time, and once three at a time
      const int64_t end = t == 2 ? 5 : t + 1;
      CHECK(difference(decoder.next_logits(target.slice(1, t, end)), all.select(1, end - 1)) <
            1e-5);
    }
    CHECK(decoder.room() == 3);

    // Rows are replaced by others, also across sources.
    const Tensor moved = ints({5, 1, 0, 3, 2, 2}), next = randint(0, 13, {6, 1});
    decoder.reorder(moved);
    const Tensor whole = cat({index_select(target, 0, moved), next}, 1);
    const Tensor sources = index_select(rows, 0, moved);
    const Tensor expected =
        model(index_select(source, 0, sources), index_select(lengths, 0, sources), whole);
    CHECK(difference(decoder.next_logits(next), expected.select(1, -1)) < 1e-5);

    decoder.clear();
    CHECK(decoder.room() == 12);
    const Tensor first =
        model(index_select(source, 0, sources), index_select(lengths, 0, sources), next);
    CHECK(difference(decoder.next_logits(next), first.select(1, 0)) < 1e-5);
  });
}

TEST_CASE("translators: padding changes nothing, and no token attends to a later one",
          "[translator]") {
  const NoGrad no_grad;
  for_all_models([](const auto& model) {
    const Tensor source = randint(0, 11, {2, 6}), lengths = ints({6, 4});
    const Tensor target = randint(0, 13, {2, 5});
    const Tensor y = model(source, lengths, target);
    Tensor padded = source.clone();
    padded[1].slice(0, 4).fill_(7);
    CHECK(golden::same(model(padded, lengths, target), y));
    CHECK(difference(model(source.slice(0, 1, 2).slice(1, 0, 4), {}, target.slice(0, 1, 2)),
                     y.slice(0, 1, 2)) < 1e-5);
    Tensor later = target.clone();
    later.slice(1, 3).fill_(1);
    CHECK(golden::same(model(source, lengths, later).slice(1, 0, 3), y.slice(1, 0, 3)));
    const Tensor alignment = model.alignment(source, lengths, target);
    REQUIRE(alignment.shape() == Shape{2, 5, 6});
    CHECK(difference(sum(alignment, -1), ones({2, 5})) < 1e-5);
    CHECK(sum(alignment[1].slice(1, 4)).item() == 0);
  });
}

TEST_CASE("translators: alignments are computed without dropout, also in training mode",
          "[translator]") {
  const Tensor source = randint(0, 9, {2, 6}), target = randint(0, 9, {2, 5});
  auto check = [&](const auto& model) {
    const Tensor alignment = model.alignment(source, {}, target);
    CHECK_FALSE(alignment.requires_grad());
    const EvalMode eval;
    CHECK(golden::same(model.alignment(source, {}, target), alignment));
  };
  check(Transformer({.source_vocab = 9, .target_vocab = 9, .layers = 1, .dim = 8, .dropout = 0.5}));
  check(RNNTranslator({.source_vocab = 9, .target_vocab = 9, .hidden = 8, .dropout = 0.5}));
}

TEST_CASE("translators: where a recurrent translator drops out", "[translator]") {
  manual_seed(1);
  const RNNTranslator model(
      {.source_vocab = 9, .target_vocab = 9, .layers = 2, .dim = 6, .hidden = 8, .dropout = 0.5});
  const Tensor source = randint(0, 9, {2, 6}), target = randint(0, 9, {2, 5});
  manual_seed(2);
  const Tensor y = model(source, {}, target);
  // Embeddings, between layers but not after the last, and before the output.
  manual_seed(2);
  const auto& drop = model.dropout;
  const auto [annotations, last] = model.encoder(drop(model.source_embedding(source)));
  const Tensor first =
      tanh(model.bridge(cat({last.h[last.h.size(0) - 2], last.h[last.h.size(0) - 1]}, -1)));
  Tensor low = first.slice(1, 0, 8), high = first.slice(1, 8, 16);
  const Tensor embedded = drop(model.target_embedding(target));
  std::vector<Tensor> outputs;
  for (const Tensor& word : unbind(embedded, 1)) {
    const Tensor context =
        model.attention(high.unsqueeze(1), annotations, annotations).output.squeeze(1);
    low = model.cells[0](cat({word, context}, -1), {low, {}}).h;
    high = model.cells[1](drop(low), {high, {}}).h;
    outputs.push_back(cat({high, context, word}, -1));
  }
  const Tensor expected = model.head(drop(tanh(model.readout(stack(outputs, 1)))));
  CHECK(difference(y, expected) < 1e-6);
}

TEST_CASE("translators: a recurrent translator has the requested cells", "[translator]") {
  for (const Recurrence cell :
       {Recurrence::rnn_tanh, Recurrence::rnn_relu, Recurrence::lstm, Recurrence::gru}) {
    const RNNTranslator model({.source_vocab = 5, .target_vocab = 5, .layers = 2, .cell = cell});
    CHECK(model.encoder.cell == cell);
    for (const nn::RecurrentCell& one : model.cells) CHECK(one.cell == cell);
  }
}

TEST_CASE("translators: the first word of an LSTM with attention by dot products, by the formula",
          "[translator]") {
  manual_seed(6);
  const EvalMode eval;
  const RNNTranslator model(
      {.source_vocab = 9, .target_vocab = 9, .cell = Recurrence::lstm, .score = nn::Score::dot});
  const Tensor source = randint(0, 9, {2, 6}), target = randint(0, 9, {2, 1});
  const auto [a, last] = model.encoder(model.source_embedding(source));
  const Tensor first = tanh(model.bridge(cat({last.h[0], last.h[1]}, -1)));
  const Tensor word = model.target_embedding(target).select(1, 0);
  const Tensor context = matmul(softmax(matmul(first.unsqueeze(1), a.mT())), a).squeeze(1);
  const Tensor h = model.cells[0](cat({word, context}, -1), {first, zeros({2, 128})}).h;
  const Tensor y = model.head(tanh(model.readout(cat({h, context, word}, -1))));
  CHECK(difference(model(source, {}, target).select(1, 0), y) < 1e-5);
}

TEST_CASE("translators: every parameter gets a gradient, padding gets none", "[translator]") {
  for_all_models([](const auto& model) {
    const models::PairBatch batch{randint(0, 11, {2, 6}), ints({6, 3}), randint(0, 13, {2, 4}),
                                  from_data<int64_t>({1, 2, 3, 4, 5, -100, -100, -100}, {2, 4})};
    model.loss(batch, 0.1).backward();
    for (const auto& [name, p] : model.named_parameters()) {
      CAPTURE(name);
      CHECK(p.grad().defined());
    }
    // Only embeddings of real tokens get a gradient.
    models::PairBatch other = batch;
    other.source = batch.source.clone();
    other.source[1].slice(0, 3).fill_(9);
    const Tensor before = model.source_embedding.weight.grad().clone();
    auto copy = model;
    copy.zero_grad();
    copy.loss(other, 0.1).backward();
    CHECK(difference(copy.source_embedding.weight.grad(), before) == 0);
  });
}

TEST_CASE("translators: the loss is the mean over real targets, with labels smoothed",
          "[translator]") {
  for_all_models([](const auto& model) {
    const NoGrad no_grad;
    const models::PairBatch batch{randint(0, 11, {2, 6}), ints({6, 3}), randint(0, 13, {2, 4}),
                                  from_data<int64_t>({1, 2, 3, 4, 5, -100, -100, -100}, {2, 4})};
    const Tensor logits = model(batch.source, batch.source_lengths, batch.inputs),
                 log_p = log_softmax(logits.to(float64)).reshape({8, 13});
    double plain = 0, smoothed = 0;
    for (int64_t i = 0; i < 5; ++i) {  // the target is i + 1
      const double own = log_p[i][i + 1].item();
      plain -= own / 5;
      smoothed -= (0.8 * own + 0.2 * mean(log_p[i]).item()) / 5;
    }
    CHECK(model.loss(batch).item() == Approx(plain).epsilon(1e-5));
    CHECK(model.loss(batch, 0.2).item() == Approx(smoothed).epsilon(1e-5));
  });
}

TEST_CASE("translators: a saved model loads unchanged, and bad arguments throw", "[translator]") {
  for_all_models([](const auto& model) {
    using Model = std::decay_t<decltype(model)>;
    const NoGrad no_grad;
    const EvalMode eval;
    TemporaryFolder folder;
    models::save_model(folder.path.string(), model);
    const auto loaded = models::load_model<Model>(folder.path.string());
    const Tensor source = randint(0, 11, {2, 4}), target = randint(0, 13, {2, 3});
    CHECK(golden::same(model(source, {}, target), loaded(source, {}, target)));

    const Tensor ids = zeros({2, 3}, int64);
    CHECK_THROWS_WITH(model(ids, ints({3}), ids), Contains("expected lengths"));
    CHECK_THROWS_WITH(model(ids, ints({0, 3}), ids), Contains("got 0"));
    CHECK_THROWS_WITH(model(ids, ints({4, 3}), ids), Contains("got 4"));
    CHECK_THROWS_WITH(model(zeros({3, 3}, int64), {}, ids), Contains("sources"));
    CHECK_THROWS_WITH(model(zeros({2, 0}, int64), {}, ids), Contains("expected source ids"));
    CHECK_THROWS_WITH(model(ids.to(float32), {}, ids), Contains("expected source ids"));
    CHECK_THROWS_WITH(model(ids, {}, ids.to(float32)), Contains("expected target ids"));
    CHECK_THROWS_WITH(model({}, {}, ids), Contains("expected source ids"));
    CHECK(model(ids, {}, zeros({2, 12}, int64)).shape() == Shape{2, 12, 13});
    // A target too long to decode is refused in training too.
    CHECK_THROWS_WITH(model(ids, {}, zeros({2, 13}, int64)),
                      Contains("13 tokens do not fit a context of 12"));
    CHECK_THROWS_WITH(model(full({2, 3}, 11, int64), {}, ids), Contains("embedding"));
    for (const int64_t beams : {int64_t{0}, int64_t{1} << 40, INT64_MAX})
      CHECK_THROWS_WITH(model.decoder(ids, {}, beams), Contains("expected from 1 to "));
    auto decoder = model.decoder(ids, {});
    CHECK_THROWS_WITH(decoder.next_logits(zeros({2, 13}, int64)), Contains("12") || Contains("13"));
    CHECK_THROWS_WITH(decoder.next_logits(zeros({1, 1}, int64)), Contains("expected"));
    CHECK_THROWS_WITH(decoder.reorder(ints({0})), Contains("row indices"));
    CHECK(decoder.next_logits(zeros({2, 12}, int64)).shape() == Shape{2, 13});  // a full decoder
    CHECK(decoder.room() == 0);
    using Other =
        std::conditional_t<std::is_same_v<Model, RNNTranslator>, Transformer, RNNTranslator>;
    CHECK_THROWS_WITH(models::load_model<Other>(folder.path.string()),
                      Contains(std::string("got \"") + Model::kind + '"'));
  });
  CHECK_THROWS_WITH(RNNTranslator({.source_vocab = 3, .target_vocab = 3, .hidden = 7}),
                    Contains("hidden must be even"));
}

TEST_CASE("translators: trained on dates, they translate unseen ones", "[translator][learns]") {
  const std::vector<std::string> special{"[PAD]", "[UNK]", "[START]", "[END]"};
  // Few date formats such as 3-May-1987, so that a short training is enough.
  std::vector<models::TextPair> pairs = models::date_pairs(40000, 1);
  std::erase_if(pairs, [](const models::TextPair& p) { return p.source.size() > 10; });
  pairs.resize(2000);
  std::string text;
  for (const auto& [source, target] : pairs) text += source + target;
  const models::CharTokenizer tokenizer(text, special);
  const models::PairData data(pairs, tokenizer, tokenizer);
  const int64_t vocab = tokenizer.vocab_size();
  auto train = [&](auto model, int64_t steps) {
    optim::Adam optimizer(model.parameters(), {.lr = 4e-3});
    for (int64_t step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      model.loss(data.random_batch(models::Split::train, 32, 1, step)).backward();
      optimizer.step({.max_grad_norm = 1});
    }
    const models::PairBatch batch = data.pairs(models::Split::validation, 0, 100);
    const auto found = models::translate(
        model, batch.source, batch.source_lengths,
        {.start = tokenizer.special("[START]"), .stop = tokenizer.special("[END]"), .tokens = 15});
    int64_t exact = 0;
    for (int64_t i = 0; i < std::ssize(found); ++i) {
      const auto& pair = pairs[static_cast<size_t>(data.original(models::Split::validation, i))];
      exact += tokenizer.decode(found[static_cast<size_t>(i)].tokens) == pair.target;
    }
    return exact;
  };
  manual_seed(1);
  CHECK(train(RNNTranslator({.source_vocab = vocab,
                             .target_vocab = vocab,
                             .context = 20,
                             .dim = 24,
                             .hidden = 48,
                             .dropout = 0}),
              250) >= 80);
  CHECK(train(Transformer({.source_vocab = vocab,
                           .target_vocab = vocab,
                           .context = 20,
                           .layers = 1,
                           .heads = 4,
                           .dim = 48,
                           .dropout = 0,
                           .pre_norm = true}),
              350) >= 80);
}

}  // namespace translator_test
