#include "workloads.h"

#include <gradus/gradus.h>

#include <memory>

namespace gradus::bench {

RankSetup& rank_setup() {
  static RankSetup setup;
  return setup;
}

namespace {
/// Several batches per step, on one or more ranks.
Workload shared_step(std::unique_ptr<optim::Optimizer> whole, std::function<Tensor()> loss,
                     int64_t items, const optim::StepOptions& options) {
  RankSetup& setup = rank_setup();
  const int64_t batches = setup.batches;
  auto parallel = std::make_shared<optim::DataParallel>(whole->parameters(), *setup.communicator);
  std::shared_ptr<optim::Optimizer> optimizer = std::move(whole);
  setup.parallel = parallel;
  return {[=] {
            optimizer->zero_grad();
            for (int64_t i = 0; i < batches; ++i)
              parallel->backward(loss() / static_cast<double>(batches), i + 1 == batches);
            optimizer->step(options);
          },
          items * batches, 0};
}

Workload step_of(std::unique_ptr<optim::Optimizer> whole, std::function<Tensor()> loss,
                 int64_t items, bool clip) {
  const optim::StepOptions options =
      clip ? optim::StepOptions{.max_grad_norm = 1.0} : optim::StepOptions{};
  const RankSetup& setup = rank_setup();
  if (setup.shard_optimizer)
    whole = std::make_unique<optim::ShardedOptimizer>(std::move(whole), *setup.communicator);
  if (setup.communicator) return shared_step(std::move(whole), std::move(loss), items, options);
  std::shared_ptr<optim::Optimizer> optimizer = std::move(whole);
  return {[=] {
            optimizer->zero_grad();
            loss().backward();
            optimizer->step(options);
          },
          items, 0};
}
}  // namespace

Workload trainer(const nn::Module& model, std::function<Tensor()> loss, int64_t items, bool clip) {
  return step_of(
      std::make_unique<optim::AdamW>(
          model.parameters(), optim::AdamWOptions{.lr = 1e-3, .beta2 = 0.99, .weight_decay = 0.1}),
      std::move(loss), items, clip);
}

/// A training step of a model whose loss takes inputs x and targets y.
template <class Model>
Workload trainer(std::shared_ptr<Model> model, Tensor x, Tensor y, int64_t items,
                 bool clip = true) {
  return trainer(
      *model, [=] { return model->loss(x, y); }, items, clip);
}

struct Classifier : nn::Module {
  nn::Linear a, b, c;
  Classifier()
      : a(child("a", nn::Linear(784, 256))),
        b(child("b", nn::Linear(256, 256))),
        c(child("c", nn::Linear(256, 10))) {}
  Tensor loss(const Tensor& x, const Tensor& y) const {
    return cross_entropy(c(b(a(x, Activation::relu), Activation::relu)), y);
  }
};

/// Two LSTM layers between an embedding and a linear head, over all positions.
struct CharLSTM : nn::Module {
  nn::Embedding embed;
  nn::LSTM rnn;
  nn::Linear head;
  CharLSTM(int64_t vocab, int64_t dim)
      : embed(child("embed", nn::Embedding(vocab, dim))),
        rnn(child("rnn", nn::LSTM(dim, dim, {.layers = 2}))),
        head(child("head", nn::Linear(dim, vocab))) {}
  Tensor loss(const Tensor& ids, const Tensor& targets) const {
    return cross_entropy(head(rnn(embed(ids)).output), targets);
  }
};

namespace {

Workload mlp() {
  const auto model = std::make_shared<Classifier>();
  const Tensor images = randn({64, 784}), labels = randint(0, 10, {64});
  return trainer(model, images, labels, 64, false);
}

Workload gpt(const models::GPTConfig& config, int64_t batch, int64_t length) {
  const auto model = std::make_shared<models::GPT>(config);
  const Tensor x = randint(0, config.vocab, {batch, length}),
               y = randint(0, config.vocab, {batch, length});
  return trainer(model, x, y, batch * length);
}

/// As gpt, with Muon for the matrices of the blocks, in the form that costs least at the same loss:
/// three steps of the Polar Express, each head on its own, and products in bfloat16.
Workload gpt_muon(const models::GPTConfig& config, int64_t batch, int64_t length) {
  const auto model = std::make_shared<models::GPT>(config);
  const Tensor x = randint(0, config.vocab, {batch, length});
  return step_of(
      optim::muon_and_adamw(
          model->parameters(), model->hidden_matrices(),
          {.muon = {.steps = 3, .polar_express = true, .per_head = true, .bfloat16 = true}}),
      [=] { return model->loss(x, x); }, batch * length, true);
}

Workload lstm(int64_t batch, int64_t length) {
  const auto model = std::make_shared<CharLSTM>(65, 256);
  const Tensor x = randint(0, 65, {batch, length}), y = randint(0, 65, {batch, length});
  return trainer(model, x, y, batch * length);
}

const models::GPTConfig gpt2_small{
    .vocab = 50257, .context = 1024, .layers = 12, .heads = 12, .dim = 768, .bias = true};

const models::GPTConfig gpt_baby{.vocab = 65, .context = 256, .layers = 6, .heads = 6, .dim = 384};

/// Causal attention alone, forward and backward, 8 heads of 64.
Workload attention(int64_t length) {
  std::vector<Tensor> qkv;
  for (int i = 0; i < 3; ++i) qkv.push_back(randn({1, 8, length, 64}).requires_grad_());
  return {[qkv] {
            sum(scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {.causal = true})).backward();
            for (const Tensor& x : qkv) x.set_grad({});
          },
          length, 0};
}

/// A Transformer of 3 + 3 layers that maps 32 tokens to 32, batch 64.
Workload seq2seq() {
  auto model = std::make_shared<models::Transformer>(models::TransformerConfig{.source_vocab = 1000,
                                                                               .target_vocab = 1000,
                                                                               .layers = 3,
                                                                               .heads = 8,
                                                                               .dim = 256,
                                                                               .dropout = 0,
                                                                               .tie = false});
  const Tensor source = randint(0, 1000, {64, 32}), inputs = randint(0, 1000, {64, 32}),
               targets = randint(0, 1000, {64, 32});
  return trainer(
      *model,
      [=] {
        return model->loss({source, {}, inputs, targets});
      },
      64 * 32);
}

/// BERT's pre-training as published, with its dropout of 0.1: 4 layers of width 256, 128 tokens of
/// which 15% are masked, batch 32.
Workload bert() {
  constexpr int64_t vocab = 4096, batch = 32, length = 128;
  auto model = std::make_shared<models::Bert>(models::BertConfig{
      .vocab = vocab, .context = length, .layers = 4, .heads = 4, .dim = 256, .dropout = 0.1});
  const Tensor ids = randint(0, vocab, {batch, length});
  const Tensor second = ge(arange(length), static_cast<double>(length / 2)).to(int64);
  const models::MaskedBatch data{ids,
                                 second.expand({batch, length}),
                                 {},
                                 masked_fill(ids, ge(rand({batch, length}), 0.15), -100),
                                 randint(0, 2, {batch})};
  return trainer(
      *model,
      [=] {
        const auto [masked, next] = model->losses(data);
        return masked + next;
      },
      batch * length);
}

/// Generates one token at batch size 1 with 256 tokens in the cache, from weights of `dtype`.
Workload generation(Dtype dtype) {
  constexpr int64_t context = 256;
  auto model = std::make_shared<models::GPT>(gpt2_small);
  model->to(dtype);
  auto decoder = std::make_shared<models::GPTDecoder>(model->decoder());
  const NoGrad no_grad;
  decoder->next_logits(randint(0, 50257, {1, context}));
  const double bytes_each = dtype == int8 ? 1.0625 : static_cast<double>(size_of(dtype));
  const int64_t positions = model->wpe->weight.numel();
  const double bytes = bytes_each * static_cast<double>(model->num_parameters() - positions);
  return {[model, decoder] {
            const NoGrad no_grad;
            const EvalMode eval;
            const int64_t length = decoder->capacity() - decoder->room();
            if (length >= 2 * context) {  // stay near the measured length
              decoder->clear();
              decoder->next_logits(randint(0, 50257, {1, context}));
            }
            argmax(decoder->next_logits(zeros({1, 1}, int64)), -1);
          },
          1, bytes};
}

}  // namespace

const std::vector<NamedWorkload>& workloads() {
  static const std::vector<NamedWorkload> all = [] {
    std::vector<NamedWorkload> list{
        {"mlp", mlp},
        {"gpt-char", [] { return gpt({.vocab = 65}, 12, 64); }},
        {"gpt-char-muon", [] { return gpt_muon({.vocab = 65}, 12, 64); }},
        {"gpt-baby", [] { return gpt(gpt_baby, 16, 256); }},
        {"gpt-baby-muon", [] { return gpt_muon(gpt_baby, 16, 256); }},
        {"gpt2-124M", [] { return gpt(gpt2_small, 4, 64); }},
        {"lstm", [] { return lstm(64, 64); }},
    };
    list.push_back({"seq2seq", seq2seq});
    list.push_back({"bert", bert});
    for (int64_t length = 512; length <= 32768; length *= 2)
      list.push_back(
          {"attention-" + std::to_string(length), [length] { return attention(length); }});
    list.push_back({"generate-124M", [] { return generation(float32); }});
    list.push_back({"generate-124M-bf16", [] { return generation(bfloat16); }});
    list.push_back({"generate-124M-int8", [] { return generation(int8); }});
    for (const NamedWorkload& workload : vision_workloads()) list.push_back(workload);
    auto grow = [&](const char* what, std::vector<int64_t> sizes, auto make) {
      for (const int64_t n : sizes)
        list.push_back(
            {std::string(what) + "-" + std::to_string(n), [=] { return make(n); }, true});
    };
    grow("length", {512, 1024, 2048, 4096, 8192, 16384},
         [](int64_t n) { return gpt({.vocab = 65, .context = n}, 1, n); });
    grow("width", {64, 128, 256, 512, 1024},
         [](int64_t n) { return gpt({.vocab = 65, .heads = n / 32, .dim = n}, 12, 64); });
    grow("batch", {1, 3, 12, 48, 192}, [](int64_t n) { return gpt({.vocab = 65}, n, 64); });
    return list;
  }();
  return all;
}

}  // namespace gradus::bench
