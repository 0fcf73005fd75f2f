// The options of a GPT that save training steps, alone and all together: PyTorch's results, cached
// decoding, second derivatives, names, files and refusals.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/gradus.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace gpt_options_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using models::GPT, models::GPTConfig;

namespace {

const GPTConfig small{.vocab = 7, .context = 6, .layers = 3, .heads = 2, .dim = 8, .hidden = 12};

GPTConfig with(const std::function<void(GPTConfig&)>& change) {
  GPTConfig config = small;
  change(config);
  return config;
}

/// The cases of the golden file, each with one option, and the last with all.
std::vector<std::pair<std::string, GPTConfig>> cases() {
  const auto rotary = models::Positions::rotary;
  const auto squared = Activation::relu_squared;
  return {
      {"qk_norm", with([&](auto& c) { c.qk_norm = true, c.positions = rotary, c.norm_eps = 0.1; })},
      {"relu_squared", with([&](auto& c) { c.activation = squared; })},
      {"gated", with([&](auto& c) { c.activation = squared, c.gated = true; })},
      {"value_shortcut", with([](auto& c) { c.value_shortcut = true, c.kv_heads = 1; })},
      {"embedding_shortcut", with([](auto& c) { c.embedding_shortcut = true; })},
      {"logit_cap", with([](auto& c) { c.logit_cap = 2.5, c.tie = false; })},
      {"bigram", with([](auto& c) { c.bigram = true; })},
      {"token_shift", with([](auto& c) { c.token_shift = true; })},
      {"all", with([&](auto& c) {
         c.tie = false, c.activation = squared, c.gated = true, c.kv_heads = 1;
         c.positions = rotary, c.norm = nn::NormKind::rms, c.norm_eps = 0.01;
         c.qk_norm = c.value_shortcut = c.embedding_shortcut = c.bigram = c.token_shift = true;
         c.logit_cap = 2.5;
       })}};
}

/// The case's model in `dtype`, with the golden file's parameters.
GPT golden_model(const std::string& name, const GPTConfig& config, Dtype dtype = float64) {
  GPT model(config);
  model.to(dtype);
  model.load_state_dict(golden::File("gpt_options").with_prefix(name + ".param.", dtype));
  return model;
}

/// The case's text (2, 7): 6 tokens to read, and the tokens after each.
Tensor golden_text(const std::string& name) {
  return golden::File("gpt_options").get(name + ".text").to(int64);
}

Tensor loss_of(const GPT& model, const Tensor& text) {
  return model.loss(text.slice(1, 0, -1), text.slice(1, 1));
}

std::vector<std::string> names_of(const GPT& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.named_parameters()) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("GPT options: PyTorch's logits, loss and gradients", "[gpt][golden]") {
  const golden::File file("gpt_options");
  for (const auto& [name, config] : cases())
    for (const Dtype dtype : {float64, float32}) {
      CAPTURE(name, dtype);
      const GPT model = golden_model(name, config, dtype);
      const Tensor text = golden_text(name);
      const double within = dtype == float64 ? 1e-12 : 1e-5;
      CHECK(golden::difference(model(text.slice(1, 0, -1)).detach(), file.get(name + ".logits")) <
            within);
      const Tensor loss = loss_of(model, text);
      CHECK(golden::difference(loss.detach(), file.get(name + ".loss")) < within);
      loss.backward();
      for (const auto& [parameter, p] : model.named_parameters()) {
        CAPTURE(parameter);
        CHECK(golden::difference(p.grad(), file.get(name + ".grad." + parameter)) <
              (dtype == float64 ? 1e-9 : 1e-4));
      }
    }
}

TEST_CASE("GPT options: second derivatives are the slopes of the first", "[gpt]") {
  for (const auto& [name, config] : cases()) {
    CAPTURE(name);
    const GPT model = golden_model(name, config);
    const Tensor text = golden_text(name);
    const std::vector<Tensor> p = model.parameters();
    manual_seed(3);
    std::vector<Tensor> direction;
    for (const Tensor& x : p) direction.push_back(randn(x.shape(), float64));
    auto gradients = [&] { return grad({loss_of(model, text)}, p); };
    const auto g = grad({loss_of(model, text)}, p, {.create_graph = true});
    Tensor along = scalar(0, float64);
    for (size_t i = 0; i < p.size(); ++i) along = along + sum(g[i] * direction[i]);
    const auto analytic = grad({along}, p);
    auto move = [&](double step) {
      const NoGrad no_grad;
      for (size_t i = 0; i < p.size(); ++i) p[i].add_(direction[i], step);
    };
    const double eps = 1e-6;
    move(eps);
    const auto after = gradients();
    move(-2 * eps);
    const auto before = gradients();
    for (size_t i = 0; i < p.size(); ++i) {
      CAPTURE(i, model.named_parameters()[i].first);
      CHECK(golden::difference(analytic[i], (after[i] - before[i]) / (2 * eps)) < 1e-5);
    }
  }
}

TEST_CASE("GPT options: a cache gives the logits of the full forward pass", "[gpt]") {
  const NoGrad no_grad;
  for (const auto& [name, config] : cases())
    for (const Dtype dtype : {float64, float32}) {
      CAPTURE(name, dtype);
      const double within = dtype == float64 ? 1e-12 : 1e-5;
      const GPT model = golden_model(name, config, dtype);
      const Tensor ids = golden_text(name).slice(1, 0, -1), expected = model(ids);
      models::GPTDecoder decoder = model.decoder(2);
      for (const std::vector<int64_t>& ends :
           std::vector<std::vector<int64_t>>{{1, 2, 3, 4, 5, 6}, {3, 4, 6}, {6}}) {
        int64_t begin = 0;
        for (const int64_t end : ends) {
          CHECK(golden::difference(decoder.next_logits(ids.slice(1, begin, end)),
                                   expected.select(1, end - 1)) < within);
          begin = end;
        }
        decoder.clear();
      }
      decoder.next_logits(ids.slice(1, 0, 3));  // then continue from the rows in another order
      const Tensor order = from_data<int64_t>({1, 0}, {2});
      decoder.reorder(order);
      const Tensor told = cat({index_select(ids.slice(1, 0, 3), 0, order), ids.slice(1, 3)}, 1);
      for (int64_t t = 3; t < 6; ++t)
        CHECK(golden::difference(decoder.next_logits(ids.slice(1, t, t + 1)),
                                 model(told).select(1, t)) < within);
    }
}

TEST_CASE("GPT options: generation and dropout", "[gpt]") {
  GPTConfig config = cases().back().second;
  config.dropout = 0.3;
  manual_seed(4);
  const GPT model(config);
  const std::vector<int64_t> prompt{1, 5, 2};
  const auto text = models::generate(model, prompt, {.tokens = 30, .seed = 5});
  CHECK(text.size() == 30);
  CHECK(text == models::generate(model, prompt, {.tokens = 30, .seed = 5}));
  const Tensor ids = golden_text("all");
  manual_seed(1);
  const double first = loss_of(model, ids).item();
  CHECK(loss_of(model, ids).item() != first);
  manual_seed(1);
  CHECK(loss_of(model, ids).item() == first);
}

TEST_CASE("GPT options: parameters, their names and initial values", "[gpt]") {
  const std::vector<std::string> plain = names_of(GPT(small));
  CHECK(plain.size() == 2 + 3 * 6 + 1);
  const GPT all(cases().back().second);
  std::vector<std::string> added;
  for (const std::string& name : names_of(all))
    if (name.starts_with("blocks.1.") || !name.starts_with("blocks")) added.push_back(name);
  CHECK(added == std::vector<std::string>{
                     "wte.weight", "blocks.1.ln1.weight", "blocks.1.attn.qkv.weight",
                     "blocks.1.attn.proj.weight", "blocks.1.attn.q_norm.weight",
                     "blocks.1.attn.k_norm.weight", "blocks.1.attn.value_shortcut",
                     "blocks.1.ln2.weight", "blocks.1.mlp.fc.weight", "blocks.1.mlp.proj.weight",
                     "blocks.1.shift1", "blocks.1.shift2", "ln_f.weight", "head.weight",
                     "stream_mix", "embedding_mix", "bigram"});
  auto start = [](const Tensor& p) { return p.to_vector<double>(); };
  using Values = std::vector<double>;
  const nn::Block& block = all.blocks[2];
  CHECK_FALSE(all.blocks[0].attn.value_shortcut.defined());
  CHECK(start(block.attn.value_shortcut) == Values{0.5, 0.5});
  CHECK(start(all.stream_mix) == Values{1, 1});
  CHECK(start(all.embedding_mix) == Values{0, 0});
  CHECK(start(block.attn.q_norm->weight) == Values(4, 1));
  CHECK(start(block.attn.k_norm->weight) == Values(4, 1));
  CHECK(start(block.shift1) == Values(8, 0));
  CHECK(start(block.shift2) == Values(8, 0));
  CHECK(start(all.bigram) == Values(49, 0));
}

TEST_CASE("GPT options: the start is the plain model's where an option starts neutral", "[gpt]") {
  const Tensor ids = golden_text("bigram").slice(1, 0, -1);
  const NoGrad no_grad;
  auto start = [&](const GPTConfig& config) {
    manual_seed(9);
    return GPT(config)(ids);
  };
  const Tensor plain = start(small);
  for (const char* neutral : {"bigram", "token_shift", "embedding_shortcut"})
    for (const auto& [name, config] : cases())
      if (name == neutral) {
        CAPTURE(name);
        CHECK(golden::same(start(config), plain));
      }
}

TEST_CASE("GPT options: zero_init sets what writes to the residual stream and an untied head",
          "[gpt]") {
  for (const bool tie : {true, false})
    for (const bool bias : {false, true}) {
      CAPTURE(tie, bias);
      const GPT model(with([&](auto& c) { c.zero_init = true, c.tie = tie, c.bias = bias; }));
      for (const auto& [name, p] : model.named_parameters()) {
        CAPTURE(name);
        const bool zero =
            name.ends_with(".proj.weight") || name.ends_with(".bias") || name == "head.weight";
        CHECK((max(abs(p)).item() == 0) == zero);
      }
      const Tensor text = golden_text("all");
      const double loss = loss_of(model, text).item();
      if (!tie) CHECK(loss == Approx(std::log(7.0)));
      loss_of(model, text).backward();  // what starts at 0 has a gradient, or will have one
      const Tensor last = model.blocks[2].mlp.proj.weight;
      CHECK((max(abs(tie ? last.grad() : model.head.weight.grad())).item() > 0));
    }
}

TEST_CASE("GPT options: a saved model loads unchanged, in every dtype", "[gpt]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "model";
  for (const auto& [name, config] : cases())
    for (const Dtype dtype : {float64, float32, bfloat16, int8}) {
      CAPTURE(name, dtype);
      GPT model = golden_model(name, config, dtype == float64 ? float64 : float32);
      if (dtype != float64) model.to(dtype);
      models::save_model(dir, model);
      GPT loaded = models::load_model<GPT>(dir);
      if (dtype == bfloat16) loaded.to(dtype);
      const Tensor ids = golden_text(name).slice(1, 0, -1);
      const NoGrad no_grad;
      CHECK(golden::same(model(ids), loaded(ids)));
      GPTConfig before = model.config, after = loaded.config;
      CHECK(GPT::fields(before).to_json() == GPT::fields(after).to_json());
    }
}

TEST_CASE("GPT options: a configuration without them has their defaults", "[gpt]") {
  GPTConfig config{.vocab = 7};
  // Whatever the struct holds before.
  GPTConfig read{.hidden = 5,
                 .positions = models::Positions::rotary,
                 .rotary = {.theta = 7},
                 .norm = nn::NormKind::rms,
                 .logit_cap = 3,
                 .token_shift = true};
  GPT::fields(read).read_json("config.json",
                              R"({"vocab": 7, "context": 64, "layers": 4, "heads": 4, "dim": 128,
                                  "dropout": 0, "bias": false, "tie": true,
                                  "activation": "gelu"})");
  CHECK(GPT::fields(read).to_json() == GPT::fields(config).to_json());
  read.norm_eps = 0.5;
  CHECK(GPT::fields(read).find("norm_eps")->to_text() == "0.5");
  CHECK(GPT::fields(read).find("norm_eps")->initial == "1e-05");
}

TEST_CASE("GPT options: what cannot work is refused by name", "[gpt]") {
  for (const char* option : {"value_shortcut", "embedding_shortcut"}) {
    const std::string message = std::string("GPT: ") + option + " needs at least 2 layers";
    const bool values = option[0] == 'v';
    CHECK_THROWS_WITH(GPT(with([&](auto& c) {
                        c.layers = 1, (values ? c.value_shortcut : c.embedding_shortcut) = true;
                      })),
                      message);
  }
  CHECK_THROWS_WITH(GPT(with([](auto& c) { c.bigram = true, c.vocab = 8193; })),
                    "GPT: bigram: its table has vocab * vocab weights: expected a vocab of at most "
                    "8192, got 8193");
  CHECK_THROWS_WITH(GPT(with([](auto& c) { c.logit_cap = -1; })),
                    Contains("GPT: logit_cap: expected a number from 0 to 1000000, got -1"));
}

}  // namespace gpt_options_test
