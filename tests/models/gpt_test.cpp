#include "gradus/models/gpt.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "gradus/core/core.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace gpt_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

const models::GPTConfig tied{.vocab = 23, .context = 16, .layers = 2, .heads = 2, .dim = 32};
const models::GPTConfig untied{.vocab = 19,
                               .context = 12,
                               .layers = 3,
                               .heads = 4,
                               .dim = 24,
                               .bias = true,
                               .tie = false,
                               .activation = Activation::gelu_tanh};

// Trains for 50 steps from PyTorch's weights on its batches; compares the first gradients, then
// losses and gradient norms.
void compare_training(const std::string& name, const models::GPTConfig& config, Dtype dtype) {
  CAPTURE(name, dtype);
  const golden::File file(name);
  models::GPT model(config);
  model.to(dtype);
  model.load_state_dict(file.with_prefix("param.", dtype));
  const Tensor batches = file.get("batches");
  const std::string key = dtype == float64 ? "float64" : "float32";
  const Tensor losses = file.get(key + ".losses"), norms = file.get(key + ".norms");

  optim::AdamW optimizer(optim::decay_groups(model.parameters()),
                         {.beta2 = 0.99, .weight_decay = 0.1});
  for (int64_t step = 0; step < 50; ++step) {
    optimizer.set_lr(
        optim::schedule::cosine(step, {.lr = 3e-3, .min_lr = 3e-4, .warmup = 10, .steps = 50}));
    const Tensor inputs = batches[step].slice(1, 0, -1), targets = batches[step].slice(1, 1);
    if (step == 0) {
      const NoGrad no_grad;
      CHECK(golden::difference(model(inputs), file.get("logits")) <
            (dtype == float64 ? 1e-9 : 1e-5));
    }
    const Tensor loss = model.loss(inputs, targets);
    optimizer.zero_grad();
    loss.backward();
    if (step == 0) {
      for (const auto& [parameter, tensor] : model.named_parameters()) {
        CAPTURE(parameter);
        CHECK(golden::difference(tensor.grad(), file.get("float64.grad." + parameter)) <
              (dtype == float64 ? 1e-9 : 1e-4));
      }
    }
    const double norm = optimizer.step({.max_grad_norm = 1});
    CAPTURE(step);
    CHECK(loss.item() == Approx(losses[step].item()).margin(dtype == float64 ? 1e-9 : 1e-4));
    CHECK(norm == Approx(norms[step].item()).epsilon(dtype == float64 ? 1e-7 : 1e-2));
  }
}

const models::GPTConfig today{.vocab = 23,
                              .context = 16,
                              .layers = 2,
                              .heads = 4,
                              .dim = 32,
                              .activation = Activation::silu,
                              .gated = true,
                              .kv_heads = 2,
                              .positions = models::Positions::rotary,
                              .norm = nn::NormKind::rms};
const models::GPTConfig waves{.vocab = 23,
                              .context = 16,
                              .layers = 1,
                              .heads = 2,
                              .dim = 16,
                              .hidden = 24,
                              .kv_heads = 1,
                              .positions = models::Positions::sinusoidal};
const models::GPTConfig windowed = [] {
  models::GPTConfig config = today;
  config.window = 5;
  return config;
}();

std::vector<int64_t> random_ids(int64_t n, int64_t vocab) {
  return randint(0, vocab, {n}).to_vector<int64_t>();
}

}  // namespace

TEST_CASE("GPT trains like PyTorch's from the same weights", "[gpt][golden]") {
  for (Dtype dtype : {float64, float32}) {
    compare_training("gpt", tied, dtype);
    compare_training("gpt_bias", untied, dtype);
  }
}

TEST_CASE("a GPT names its parameters", "[gpt]") {
  const models::GPT model({.vocab = 7, .context = 5, .layers = 1, .heads = 2, .dim = 4});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"wte.weight", "wpe.weight", "blocks.0.ln1.weight",
                                          "blocks.0.attn.qkv.weight", "blocks.0.attn.proj.weight",
                                          "blocks.0.ln2.weight", "blocks.0.mlp.fc.weight",
                                          "blocks.0.mlp.proj.weight", "ln_f.weight"});
  CHECK(models::GPT(untied).named_parameters().back().first == "head.weight");
  const models::GPT nano({.vocab = 65, .context = 64, .layers = 4, .heads = 4, .dim = 128});
  CHECK(nano.num_parameters() == 65 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 2 * 128) + 128);
}

TEST_CASE("a GPT of the LLaMA form names its parameters and refuses contradictory options",
          "[gpt]") {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : models::GPT(today).named_parameters()) names.push_back(name);
  CHECK(std::vector<std::string>(names.begin(), names.begin() + 7) ==
        std::vector<std::string>{"wte.weight", "blocks.0.ln1.weight", "blocks.0.attn.qkv.weight",
                                 "blocks.0.attn.proj.weight", "blocks.0.ln2.weight",
                                 "blocks.0.mlp.fc.weight", "blocks.0.mlp.proj.weight"});
  const nn::Block block = models::GPT(today).blocks[1];
  CHECK(block.attn.qkv.weight.shape() == Shape{(4 + 2 * 2) * 8, 32});
  CHECK(block.mlp.fc.weight.shape() == Shape{2 * 88, 32});  // 8/3 32, rounded up to a multiple of 8
  models::GPTConfig config = today;
  config.kv_heads = 3;
  CHECK_THROWS_WITH(models::GPT(config),
                    Contains("kv_heads must divide heads: heads 4, kv_heads 3"));
  config.kv_heads = 4, config.dim = 12;
  CHECK_THROWS_WITH(models::GPT(config), Contains("rotary positions need heads of even size"));
  const TemporaryFolder folder;
  models::save_model(folder.path.string(), models::GPT(today));
  const auto loaded = models::load_model<models::GPT>(folder.path.string());
  CHECK(loaded.config.positions == models::Positions::rotary);
  CHECK(loaded.config.norm == nn::NormKind::rms);
  CHECK((loaded.config.gated && loaded.config.kv_heads == 2));
}

TEST_CASE("a GPT's tokens see as far back as a window in each layer", "[gpt]") {
  manual_seed(5);
  const TemporaryFolder folder;
  models::save_model(folder.path.string(), models::GPT(windowed));
  const auto model = models::load_model<models::GPT>(folder.path.string());
  CHECK(model.config.window == 5);
  for (const nn::Block& block : model.blocks) CHECK(block.attn.window == 5);
  const NoGrad no_grad;
  const Tensor ids = randint(0, 23, {1, 16});
  Tensor other = ids.clone();
  other.select(1, 2).copy_((ids.select(1, 2) + 1) * (ids.select(1, 2) < 22).to(int64));
  const Tensor change = sum(abs(model(ids) - model(other)), -1)[0];
  // Token t of the first layer sees tokens t - 4 to t, so token t of the second sees t - 8 to t.
  for (int64_t t = 0; t < 16; ++t) CHECK((change[t].item() > 0) == (t >= 2 && t <= 10));
  CHECK_THROWS_WITH(models::GPT({.vocab = 9, .window = -1}),
                    Contains("GPT: window: expected a whole number from 0 to 1000000, got -1"));
}

TEST_CASE("a GPT is initialised like GPT-2", "[gpt]") {
  manual_seed(1);
  const models::GPT model(
      {.vocab = 65, .context = 64, .layers = 8, .heads = 4, .dim = 128, .bias = true});
  auto deviation = [](const Tensor& x) { return std::sqrt(var(x, {}).item()); };
  const nn::Block& block = model.blocks[3];
  CHECK(deviation(model.wte.weight) == Approx(0.02).epsilon(0.05));
  CHECK(deviation(model.wpe->weight) == Approx(0.02).epsilon(0.05));
  CHECK(deviation(block.attn.qkv.weight) == Approx(0.02).epsilon(0.05));
  CHECK(deviation(block.attn.proj.weight) == Approx(0.02 / 4).epsilon(0.05));
  CHECK(deviation(block.mlp.proj.weight) == Approx(0.02 / 4).epsilon(0.05));
  CHECK(max(abs(block.attn.qkv.bias)).item() == 0);
  CHECK(min(block.ln1.weight).item() == 1);
  const NoGrad no_grad;
  const Tensor ids = randint(0, 65, {4, 64}), targets = randint(0, 65, {4, 64});
  CHECK(model.loss(ids, targets).item() == Approx(std::log(65.0)).margin(0.3));
}

TEST_CASE("a GPT embeds tokens by the formula of each kind of positions, and drops them out",
          "[gpt]") {
  manual_seed(3);
  using models::Positions;
  for (const Positions kind : {Positions::learned, Positions::sinusoidal, Positions::rotary}) {
    CAPTURE(int(kind));
    const models::GPT model({.vocab = 23,
                             .context = 16,
                             .layers = 2,
                             .heads = 2,
                             .dim = 16,
                             .dropout = 0.3,
                             .positions = kind});
    const Tensor ids = randint(0, 23, {2, 9});
    manual_seed(4);
    const Tensor y = model(ids);
    manual_seed(4);
    Tensor x = index_select(model.wte.weight, 0, ids.reshape({18})).reshape({2, 9, 16});
    if (kind == Positions::learned) x = x + model.wpe->weight.slice(0, 0, 9);
    if (kind == Positions::sinusoidal)
      x = x * 4.0 + nn::sinusoidal_positions(9, 16);  // 4 is sqrt(16)
    x = dropout(x, 0.3);
    for (const nn::Block& block : model.blocks) {
      CHECK((block.attn.dropout.p == 0.3 && block.mlp.dropout.p == 0.3));
      x = block(x);
    }
    CHECK(gradus::testing::difference(y, model.head(model.ln_f(x))) < 1e-5);
  }
}

TEST_CASE("a GPT refuses bad configurations and inputs", "[gpt]") {
  CHECK_THROWS_WITH(models::GPT({.vocab = 0}),
                    Contains("GPT: vocab: expected a whole number from 1 to 1000000000, got 0"));
  CHECK_THROWS_WITH(models::GPT({.vocab = 9, .heads = 3, .dim = 16}),
                    "GPT: heads must divide dim: dim 16, heads 3");
  CHECK_THROWS_WITH(models::GPT({.vocab = 9, .dropout = 1.5}),
                    Contains("GPT: dropout: expected a number from 0 to 0.999999, got 1.5"));
  const models::GPT model(tied);
  CHECK_THROWS_WITH(model(zeros({1, 17}, int64)), "GPT: 17 tokens do not fit a context of 16");
  CHECK_THROWS_WITH(model(zeros({4}, int64)), Contains("GPT: expected ids (B, T) of int64"));
  CHECK_THROWS_WITH(model(zeros({1, 4})), Contains("GPT: expected ids (B, T) of int64"));
  CHECK_THROWS_WITH(model(zeros({1, 0}, int64)), Contains("GPT: expected ids (B, T)"));
  CHECK_THROWS_AS(model(full({1, 4}, 23, int64)), Error);
  CHECK_THROWS_AS(model(full({1, 4}, -1, int64)), Error);
  CHECK_THROWS_WITH(model.loss(zeros({1, 4}, int64), zeros({1, 3}, int64)),
                    Contains("the same shape"));
}

TEST_CASE("a GPT with a cache computes the logits of the full forward pass", "[gpt]") {
  manual_seed(6);
  const NoGrad no_grad;
  for (const models::GPTConfig& config : {tied, untied, today, waves, windowed})
    for (Dtype dtype : {float64, float32}) {
      models::GPT model(config);
      for (const Tensor& p : model.parameters()) p.mul_(4);  // so that attention is not uniform
      model.to(dtype);
      const Tensor ids = randint(0, config.vocab, {2, config.context});
      const Tensor expected = model(ids);
      models::GPTDecoder decoder = model.decoder(2);
      int64_t begin = 0;
      for (int64_t end = 3; end <= config.context; ++end) {
        const Tensor logits = decoder.next_logits(ids.slice(1, begin, end));
        CHECK(golden::difference(logits, expected.select(1, end - 1)) <
              (dtype == float64 ? 1e-12 : 1e-5));
        begin = end;
        CHECK(decoder.room() == config.context - end);
      }
      CHECK_THROWS_WITH(decoder.next_logits(ids.slice(1, 0, 1)), Contains("do not fit a context"));
    }
  const models::GPT model(tied);
  models::GPTDecoder decoder = model.decoder();
  const GradMode on(true);
  CHECK_THROWS_WITH(decoder.next_logits(zeros({1, 1}, int64)), Contains("NoGrad"));
}

TEST_CASE("a decoder's rows can continue from other rows", "[gpt]") {
  manual_seed(16);
  const NoGrad no_grad;
  const models::GPT model(tied);
  for (const Tensor& p : model.parameters()) p.mul_(4);
  const Tensor ids = randint(0, 23, {3, 9}), order = from_data<int64_t>({2, 2, 0}, {3});
  models::GPTDecoder decoder = model.decoder(3);
  decoder.next_logits(ids.slice(1, 0, 5));
  decoder.reorder(order);
  const Tensor told = cat({index_select(ids.slice(1, 0, 5), 0, order), ids.slice(1, 5)}, 1);
  CHECK(golden::difference(decoder.next_logits(ids.slice(1, 5)), model(told).select(1, -1)) < 1e-5);
  CHECK(decoder.room() == 7);
  CHECK_THROWS_WITH(decoder.reorder(from_data<int64_t>({0}, {1})),
                    Contains("expected 3 row indices"));
  CHECK_THROWS_WITH(decoder.reorder(from_data<int64_t>({0, 1, 3}, {3})), Contains("3"));
  CHECK_THROWS_WITH(decoder.next_logits(zeros({2, 1}, int64)),
                    "GPT: expected ids of 3 rows, got (2, 1)");
  decoder.clear();
  CHECK(decoder.room() == decoder.capacity());
  models::GPTDecoder moved = std::move(decoder), single = model.decoder();
  CHECK(moved.room() == moved.capacity());
  CHECK(decoder.room() == 0);  // what is left has no cache
  const char* const refusal = "decoder was moved from";
  CHECK_THROWS_WITH(decoder.lengths(), Contains(refusal));
  CHECK_THROWS_WITH(decoder.next_logits(zeros({3, 1}, int64)), Contains(refusal));
  CHECK_THROWS_WITH(decoder.add_row(single), Contains(refusal));
  CHECK_THROWS_WITH(moved.add_row(decoder), Contains(refusal));
}

TEST_CASE("generation does not depend on what its decoder read before", "[gpt]") {
  manual_seed(17);
  const models::GPT model(tied);
  const std::vector<int64_t> prompt = random_ids(3, 23);
  const auto expected = models::generate(model, prompt, {.tokens = 20, .seed = 4});
  models::GPTDecoder decoder = model.decoder();
  for (const int64_t read : {1, 15, 16}) {
    {
      const NoGrad no_grad;
      decoder.clear();
      decoder.next_logits(zeros({1, read}, int64));
    }
    CHECK(models::generate(decoder, prompt, {.tokens = 20, .seed = 4}) == expected);
  }
  models::GPTDecoder two = model.decoder(2);
  CHECK_THROWS_AS(models::generate(two, prompt, {.tokens = 1}), Error);
}

TEST_CASE("greedy generation takes the most likely token, with and without a cache", "[gpt]") {
  manual_seed(7);
  const models::GPT model(tied);
  const std::vector<int64_t> prompt = random_ids(3, 23);
  std::vector<int64_t> text = prompt;
  {
    const NoGrad no_grad;
    // All tokens are read up to the context; then the last half is reread whenever it is full.
    size_t first = 0;
    for (int i = 0; i < 40; ++i) {
      if (text.size() - first > 16) first = text.size() - 8;
      const std::vector<int64_t> window(text.begin() + static_cast<std::ptrdiff_t>(first),
                                        text.end());
      const int64_t n = static_cast<int64_t>(window.size());
      text.push_back(argmax(model(from_data(window, {1, n}))[0][n - 1], 0).item<int64_t>());
    }
  }
  const auto greedy =
      models::generate(model, prompt, {.tokens = 40, .sampling = {.temperature = 0}});
  CHECK(greedy == std::vector<int64_t>(text.begin() + 3, text.end()));
  CHECK(greedy ==
        models::generate(model, prompt, {.tokens = 40, .sampling = {.top_k = 1}, .seed = 9}));
  CHECK(greedy ==
        models::generate(model, prompt, {.tokens = 40, .sampling = {.top_p = 1e-9}, .seed = 8}));
}

TEST_CASE("generation depends only on its seed", "[gpt]") {
  manual_seed(8);
  const models::GPT model(
      {.vocab = 23, .context = 16, .layers = 2, .heads = 2, .dim = 32, .dropout = 0.5});
  const std::vector<int64_t> prompt = random_ids(30, 23);  // longer than the context
  auto text = [&](uint64_t seed) {
    return models::generate(model, prompt, {.tokens = 50, .seed = seed});
  };
  const auto first = text(1);
  manual_seed(9);
  CHECK(first.size() == 50);
  CHECK(first == text(1));
  CHECK(first != text(2));
  const std::vector<int64_t> seen(prompt.end() - 16, prompt.end());
  CHECK(first == models::generate(model, seen, {.tokens = 50, .seed = 1}));

  std::vector<int64_t> streamed;
  const auto all = models::generate(
      model, prompt,
      {.tokens = 50, .seed = 1, .on_token = [&](int64_t id) { streamed.push_back(id); }});
  CHECK(streamed == all);
  const int64_t stop = first[10];
  const auto until = models::generate(model, prompt, {.tokens = 50, .seed = 1, .stop_token = stop});
  CHECK(until == std::vector<int64_t>(first.begin(), std::find(first.begin(), first.end(), stop)));
  CHECK(models::generate(model, prompt, {.tokens = 0}).empty());
}

TEST_CASE("tokens are sampled with the probabilities given by the logits", "[gpt]") {
  const Tensor logits = log(tensor({0.1, 0.4, 0.2, 0.3}));
  auto frequencies = [&](const models::SamplingOptions& options) {
    Generator generator(3);
    std::vector<double> counts(4);
    for (int i = 0; i < 20000; ++i)
      counts[static_cast<size_t>(models::sample_token(logits, options, generator))] += 1.0 / 20000;
    return counts;
  };
  auto expect = [&](const models::SamplingOptions& options, const std::vector<double>& expected) {
    const auto found = frequencies(options);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(found[i] == Approx(expected[i]).margin(0.015));
      if (expected[i] == 0) CHECK(found[i] == 0);
    }
  };
  expect({}, {0.1, 0.4, 0.2, 0.3});
  expect({.temperature = 0.5}, {1 / 30.0, 16 / 30.0, 4 / 30.0, 9 / 30.0});
  expect({.temperature = 0}, {0, 1, 0, 0});
  expect({.top_k = 2}, {0, 4 / 7.0, 0, 3 / 7.0});
  expect({.top_k = 9}, {0.1, 0.4, 0.2, 0.3});
  expect({.top_k = INT64_MAX}, {0.1, 0.4, 0.2, 0.3});
  expect({.top_p = 0.65}, {0, 4 / 7.0, 0, 3 / 7.0});
  expect({.top_p = 0.75}, {0, 4 / 9.0, 2 / 9.0, 3 / 9.0});
  expect({.top_k = 3, .top_p = 0.4}, {0, 1, 0, 0});
  expect({.top_k = 2, .top_p = 0.5}, {0, 1, 0, 0});  // 4/7 of the top_k
  expect({.top_k = 2, .top_p = 0.6}, {0, 4 / 7.0, 0, 3 / 7.0});
  Generator generator;
  std::set<int64_t> flat;  // the first 5 of the 10 likeliest of 100, each as likely as the others
  for (int i = 0; i < 200; ++i)
    flat.insert(models::sample_token(zeros({100}), {.top_k = 10, .top_p = 0.45}, generator));
  CHECK(flat == std::set<int64_t>{0, 1, 2, 3, 4});
  CHECK(models::sample_token(ones({5}), {.top_k = 1}, generator) == 0);
  CHECK(models::sample_token(tensor({-1e30, 5, -1e30}), {.temperature = 1e-5}, generator) == 1);
  CHECK_THROWS_WITH(models::sample_token(tensor({1, NAN}), {}, generator),
                    "sample_token: the largest logit, after penalty and bias, is nan: expected a "
                    "finite one");
}

TEST_CASE("generation refuses bad prompts and options", "[gpt]") {
  const models::GPT model(tied);
  CHECK_THROWS_WITH(models::generate(model, {}), Contains("prompt of at least one token"));
  CHECK_THROWS_WITH(models::generate(model, {3, 23}),
                    Contains("token 23 of the prompt is not in a vocabulary of 23"));
  CHECK_THROWS_WITH(models::generate(model, {3}, {.tokens = -1}), Contains("tokens >= 0, got -1"));
  CHECK_THROWS_WITH(models::generate(model, {3}, {.sampling = {.temperature = -1}}),
                    Contains("temperature >= 0"));
  CHECK_THROWS_WITH(models::generate(model, {3}, {.sampling = {.top_k = -1}}),
                    Contains("top_k >= 0"));
  CHECK_THROWS_WITH(models::generate(model, {3}, {.sampling = {.top_p = 0}}),
                    Contains("0 < top_p <= 1"));
  CHECK_THROWS_WITH(models::generate(model, {3}, {.stop_token = 23}), Contains("stop token 23"));
}

TEST_CASE("a saved GPT loads unchanged", "[gpt]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "model";
  for (Dtype dtype : {float32, float64})
    for (const models::GPTConfig& config : {tied, untied}) {
      models::GPT model(config);
      model.to(dtype);
      models::save_model(dir, model);
      const RandomKey state = default_generator().state();
      const models::GPT loaded = models::load_model<models::GPT>(dir);
      CHECK(default_generator().state().counter == state.counter);
      CHECK(loaded.config.activation == config.activation);
      CHECK(loaded.config.bias == config.bias);
      const Tensor ids = randint(0, config.vocab, {2, config.context});
      CHECK(golden::same(model(ids).detach(), loaded(ids).detach()));
    }
}

TEST_CASE("a GPT in bfloat16 or int8 computes, saves and loads", "[gpt][compression]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  const bool tie = GENERATE(true, false);
  CAPTURE(dtype, tie);
  manual_seed(1);
  models::GPT model({.vocab = 50, .context = 16, .layers = 2, .heads = 2, .dim = 40, .tie = tie});
  TemporaryFolder folder;
  save_model(folder / "full", model);
  model.to(dtype);
  for (const auto& [name, p] : model.named_parameters()) {
    CAPTURE(name);
    const bool matrix = name.starts_with("wte") || name.starts_with("head") ||
                        (name.starts_with("blocks") && p.rank() == 2);
    CHECK(p.dtype() == (matrix ? dtype : float32));
  }
  auto full = models::load_model<models::GPT>(folder / "full");
  for (const auto& [name, p] : full.named_parameters()) {  // the same numbers, stored as float32
    const NoGrad no_grad;
    if (p.rank() == 2 && name != "wpe.weight") p.copy_(p.to(dtype).to(float32));
  }
  const Tensor ids = randint(0, 50, {2, 16});
  const NoGrad no_grad;
  CHECK(gradus::testing::difference(model(ids), full(ids)) < 1e-5);

  save_model(folder / "small", model);
  auto loaded = models::load_model<models::GPT>(folder / "small");
  CHECK(loaded.head.weight.dtype() == (dtype == int8 ? int8 : float32));  // float32: see below
  loaded.to(dtype);  // bfloat16 files load as float32, without loss
  CHECK(gradus::testing::difference(loaded(ids), model(ids)) == 0);
  // An existing model takes either form.
  load_weights(folder / "full", loaded);
  CHECK(loaded.head.weight.dtype() == float32);
  load_weights(folder / "small", loaded);
  loaded.to(dtype);
  CHECK(gradus::testing::difference(loaded(ids), model(ids)) == 0);
}

TEST_CASE("weights of another model change nothing, not even the dtype", "[gpt]") {
  const NoGrad no_grad;
  const TemporaryFolder folder;
  save_model(folder / "small", models::GPT(tied));
  models::GPTConfig config = tied;
  config.dim = 64;
  models::GPT model(config);
  model.to(float64);
  model.wte.weight.copy_(randn(model.wte.weight.shape(), float64));
  model.wte.weight.set_grad(ones(model.wte.weight.shape(), float64));
  const Tensor before = model.wte.weight.detach().clone();
  CHECK_THROWS_WITH(load_weights(folder / "small", model),
                    Contains("model.safetensors: load_state_dict: the names or shapes differ") &&
                        Contains("(expected float64 (64,), got float32 (32,))"));
  CHECK(model.wte.weight.dtype() == float64);
  CHECK(model.wte.weight.grad().defined());
  CHECK(golden::same(model.wte.weight, before));
}

TEST_CASE("a GPT configuration of an earlier version loads", "[gpt]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "model";
  const models::GPT model(untied);
  models::save_model(dir, model);
  const std::string path = models::config_path(dir);
  auto json = nlohmann::json::parse(read_file(path));
  CHECK(json["activation"] == "gelu_tanh");
  json.erase("activation");
  for (const char* name : {"erf", "tanh"}) {
    json["gelu"] = name;
    write_file_atomically(path, json.dump());
    CHECK(models::load_config<models::GPT>(dir).activation ==
          (name[0] == 'e' ? Activation::gelu : Activation::gelu_tanh));
  }
}

TEST_CASE("loading a GPT names the damaged file", "[gpt]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "model";
  CHECK_THROWS_WITH(models::load_model<models::GPT>(dir), Contains(dir));
  const models::GPT model(tied);
  models::save_model(dir, model);
  const std::string config = dir + "/config.json", text = read_file(config);
  auto with = [&](const std::string& key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(text);
    json[key] = value;
    write_file_atomically(config, json.dump());
  };
  auto refuses = [&](const std::string& message) {
    CHECK_THROWS_WITH(models::load_model<models::GPT>(dir), Contains(dir) && Contains(message));
  };
  write_file_atomically(config, text.substr(0, 20));
  refuses("config.json: the file is not JSON at its byte 21");
  with("model", "bert"), refuses("config.json: expected a model of kind \"gpt\", got \"bert\"");
  with("layers", 2.5),
      refuses("config.json: layers: expected a whole number from 1 to 10000, got 2.5");
  with("activation", "swish"), refuses("activation: expected one of none, relu, tanh, ");
  with("gelu", "erf"), refuses("gelu: \"erf\" is not a value of an earlier version");
  with("layerz", 2), refuses("config.json: \"layerz\" is not a known entry");
  with("vocab", 24), refuses("wte.weight (expected float32 (24, 32), got float32 (23, 32))");
  with("vocab", 1000),
      refuses("config.json: Embedding: parameter 'weight': (1000, 32) exceeds the");
  with("dim", int64_t{1} << 40), refuses("config.json: dim: expected");
  with("bias", true), refuses("elements left in the weights file");
  with("layers", 10000), refuses("elements left in the weights file");
  with("context", 8), refuses("wpe.weight (expected float32 (8, 32), got float32 (16, 32))");
  with("heads", 3), refuses("config.json: GPT: heads must divide dim: dim 32, heads 3");
  write_file_atomically(config, text);
  const std::string weights = dir + "/model.safetensors", bytes = read_file(weights);
  write_file_atomically(weights, bytes.substr(0, bytes.size() - 1));
  refuses("model.safetensors");
  CHECK_THROWS_WITH(models::save_model(config, model), Contains("cannot create the folder"));
}

}  // namespace gpt_test
