// BERT against PyTorch, and fine-tuning.

#include "gradus/models/bert.h"

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/optim/optimizers.h"
#include "tests/golden/training_checks.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace bert_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

const models::BertConfig tiny{
    .vocab = 17, .context = 14, .layers = 2, .heads = 2, .dim = 16, .dropout = 0};

models::BertInput some_input(int64_t batch, int64_t length) {
  return {randint(0, 17, {batch, length}), randint(0, 2, {batch, length})};
}

}  // namespace

TEST_CASE("BERT trains like PyTorch's from the same weights", "[bert][golden]") {
  const golden::File file("bert");
  golden::check_training<models::Bert>(file, tiny, [&](const auto& model, int64_t step, Dtype) {
    const auto [masked, next] =
        model.losses({file.get("ids")[step], file.get("segments")[step], file.get("mask")[step],
                      file.get("targets")[step], file.get("is_next")[step]});
    return std::vector<Tensor>{masked, next};
  });
}

TEST_CASE("BERT: padding has no effect, and segments default to 0", "[bert]") {
  manual_seed(1);
  const NoGrad no_grad;
  const models::Bert model(tiny);
  models::BertInput in = some_input(2, 9);
  in.mask = from_data<int64_t>({9, 5}, {2, 1}) > arange(9);
  const Tensor hidden = model(in);
  models::BertInput other = in;
  other.ids = in.ids.clone();
  other.ids[1].slice(0, 5).fill_(3);
  CHECK(golden::same(model(other)[1].slice(0, 0, 5), hidden[1].slice(0, 0, 5)));
  CHECK(golden::same(model(other)[0], hidden[0]));
  CHECK(difference(model({in.ids}), model({in.ids, zeros({2, 9}, int64)})) == 0);
  CHECK(model.pooled(hidden).shape() == Shape{2, 16});
  CHECK(model.word_logits(hidden).shape() == Shape{2, 9, 17});
}

TEST_CASE("BERT: every option reaches its layers, and embeddings drop out after their norm",
          "[bert]") {
  manual_seed(3);
  const models::Bert model({.vocab = 17,
                            .context = 14,
                            .segments = 3,
                            .layers = 2,
                            .heads = 4,
                            .dim = 16,
                            .hidden = 24,
                            .dropout = 0.3,
                            .activation = Activation::relu,
                            .norm_eps = 0.5});
  for (const nn::Block& block : model.blocks) {
    CHECK(block.attn.heads == 4);
    CHECK(block.mlp.fc.weight.shape() == Shape{24, 16});
    CHECK(block.mlp.activation == Activation::relu);
    for (const nn::Dropout& drop : {block.attn.dropout, block.mlp.dropout}) CHECK(drop.p == 0.3);
    for (const nn::Norm& norm : {block.ln1, block.ln2}) CHECK(norm.eps == 0.5);
  }
  const auto normalised = [](const Tensor& x, const nn::Norm& norm) {
    const Tensor centred = x - mean(x, -1, keepdim);
    return centred / sqrt(mean(centred * centred, -1, keepdim) + 0.5) * norm.weight + norm.bias;
  };
  models::BertInput in = some_input(2, 9);
  in.segments = randint(0, 3, {2, 9});
  manual_seed(4);
  const Tensor y = model(in);
  manual_seed(4);
  Tensor x = model.words(in.ids) + model.positions(arange(9)) + model.segments(in.segments);
  x = dropout(normalised(x, model.embedding_norm), 0.3);
  for (const nn::Block& block : model.blocks) x = block(x);
  CHECK(difference(y, x) < 1e-5);
  const Tensor h = randn({4, 16}), t = normalised(relu(model.transform(h)), model.transform_norm);
  CHECK(difference(model.word_logits(h), matmul(t, model.words.weight.mT()) + model.decoder.bias) <
        1e-5);
}

TEST_CASE("BERT: in bfloat16 or int8 it computes with the rounded weights", "[bert][compression]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  manual_seed(5);
  models::Bert model(tiny), rounded(tiny);
  const NoGrad no_grad;
  rounded.load_state_dict(model.state_dict());
  for (const Tensor& p : rounded.parameters())
    if (p.rank() == 2) p.copy_(p.to(dtype).to(float32));  // embeddings and linear layers
  model.to(dtype);
  const Tensor ids = some_input(2, 9).ids;
  CHECK(difference(model({ids}), rounded({ids})) < 1e-5);
}

TEST_CASE("BERT: fine-tuning with a frozen encoder trains only the head", "[bert]") {
  manual_seed(2);
  for (const bool tokens : {false, true}) {
    const models::Bert bert(tiny);
    models::BertClassifier model({.bert = tiny, .classes = 3, .tokens = tokens});
    model.bert.load_state_dict(bert.state_dict());
    model.bert.requires_grad_(false);
    CHECK(golden::same(model.bert.words.weight.detach(), bert.words.weight.detach()));
    const models::BertInput in = some_input(12, 6);
    const Tensor of_tokens = (in.ids > 5).to(int64) + (in.ids > 11).to(int64);
    const Tensor labels = tokens ? of_tokens : of_tokens.select(1, 0);
    optim::AdamW optimizer(model.parameters(), {.lr = 0.05});
    double first = 0, last = 0;
    for (int step = 0; step < 60; ++step) {
      const Tensor loss = model.loss(in, labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      (step == 0 ? first : last) = loss.item();
    }
    CHECK(last < 0.6 * first);
    for (const auto& [name, p] : model.bert.named_parameters()) {
      CAPTURE(name);
      CHECK_FALSE(p.grad().defined());
    }
    CHECK(golden::same(model.bert.blocks[0].attn.qkv.weight.detach(),
                       bert.blocks[0].attn.qkv.weight.detach()));
    model.bert.requires_grad_();
    model.loss(in, labels).backward();
    CHECK(model.bert.words.weight.grad().defined());
    TemporaryFolder folder;
    models::save_model(folder.path.string(), model);
    const auto loaded = models::load_model<models::BertClassifier>(folder.path.string());
    CHECK(golden::same(loaded(in).detach(), model(in).detach()));
  }
}

TEST_CASE("BERT: the classifier drops its head's inputs", "[bert]") {
  models::BertConfig config = tiny;
  config.dropout = 0.5;
  for (const bool tokens : {false, true}) {
    const models::BertClassifier model({.bert = config, .classes = 16, .tokens = tokens});
    const NoGrad no_grad;
    model.head.weight.copy_(eye(16));
    model.head.bias.zero_();
    const Tensor logits = model(some_input(8, 10));
    const double zeros = sum((logits == 0).to(float32)).item() / double(logits.numel());
    CHECK((zeros > 0.3 && zeros < 0.7));
    const EvalMode eval;
    CHECK(min(abs(model(some_input(8, 10)))).item() > 0);
  }
}

TEST_CASE("BERT: bad arguments throw", "[bert]") {
  const models::Bert model(tiny);
  const Tensor ids = zeros({2, 3}, int64);
  CHECK_THROWS_WITH(model({zeros({2, 15}, int64)}),
                    Contains("15 tokens do not fit a context of 14"));
  CHECK_THROWS_WITH(model({ids.to(float32)}), Contains("expected ids (B, T) of int64"));
  CHECK_THROWS_WITH(model({Tensor()}), Contains("expected ids (B, T) of int64"));
  CHECK_THROWS_WITH(model({ids, zeros({2, 4}, int64)}),
                    Contains("expected segments of the ids' shape"));
  CHECK_THROWS_WITH(model({ids, {}, ones({2, 3})}), Contains("expected a mask of bool (2, 3)"));
  CHECK_THROWS_WITH(model({full({2, 3}, 17, int64)}), Contains("embedding"));
  CHECK_THROWS_WITH(model({ids, full({2, 3}, 2, int64)}), Contains("embedding"));
  CHECK_THROWS_WITH(model.losses({ids, {}, {}, full({2, 3}, -100, int64), zeros({2}, int64)}),
                    Contains("no token of the batch is masked"));
  CHECK_THROWS_WITH(model.losses({ids, {}, {}, zeros({2, 4}, int64), zeros({2}, int64)}),
                    Contains("expected targets of int64 (2, 3)"));
  CHECK_THROWS_WITH(models::Bert({.vocab = 5, .heads = 3, .dim = 16}),
                    Contains("heads must divide"));
  CHECK_THROWS_WITH(models::Bert({}), Contains("vocab: expected"));
  // A configuration that load_model would refuse is refused at construction.
  for (const int64_t classes : {0, 1})
    CHECK_THROWS_WITH(models::BertClassifier({.bert = tiny, .classes = classes}),
                      Contains("BertClassifier: classes: expected"));
  for (const Tensor& bad : {Tensor(), zeros({2}), zeros({3}, int64)})
    CHECK_THROWS_WITH(model.losses({ids, {}, {}, ids, bad}),
                      Contains("expected is_next of int64 (2,)"));
  for (const Tensor& bad : {Tensor(), ids.to(float32)})
    CHECK_THROWS_WITH(model.losses({ids, {}, {}, bad, zeros({2}, int64)}),
                      Contains("expected targets of int64 (2, 3)"));
  CHECK_THROWS_WITH(model({ids, {}, ones({2, 4}) > 0}), Contains("expected a mask of bool (2, 3)"));
  CHECK(model({zeros({2, 14}, int64)}).shape() == Shape{2, 14, 16});  // the longest input
}

}  // namespace bert_test
