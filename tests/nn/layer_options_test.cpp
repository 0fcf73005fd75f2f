// Each layer with every option changed from its default, against the same computed here from its
// named parameters: catches options that are ignored or passed to the wrong part.

#include <catch2/catch.hpp>
#include <map>

#include "gradus/gradus.h"
#include "tests/support/compare.h"

namespace layer_options_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

using Parameters = std::map<std::string, Tensor>;

/// Sets all parameters of a module, biases and gains too, to random values and returns them.
Parameters randomised(const nn::Module& module) {
  const NoGrad no_grad;
  Parameters out;
  for (const auto& [name, p] : module.named_parameters()) {
    p.copy_(randn(p.shape(), p.dtype()) * 0.5);
    out[name] = p;
  }
  return out;
}

Tensor find(const Parameters& p, const std::string& name) {
  const auto at = p.find(name);
  return at == p.end() ? Tensor() : at->second;
}

Tensor affine(const Parameters& p, const std::string& name, const Tensor& x) {
  const Tensor y = matmul(x, find(p, name + ".weight").mT()), b = find(p, name + ".bias");
  return b.defined() ? y + b : y;
}

Tensor norm_of(const Parameters& p, const std::string& name, const Tensor& x, double eps) {
  const Tensor centred = x - mean(x, -1, keepdim);
  const Tensor y = centred / sqrt(mean(centred * centred, -1, keepdim) + eps);
  const Tensor b = find(p, name + ".bias");
  return b.defined() ? y * find(p, name + ".weight") + b : y * find(p, name + ".weight");
}

/// The attention layer: dropout draws for the weights first, then for the output.
Tensor attention_of(const Parameters& p, const std::string& prefix, const Tensor& x, int64_t heads,
                    int64_t kv_heads, bool causal, double drop, const Tensor& mask = {}) {
  const int64_t B = x.size(0), T = x.size(1), D = x.size(2) / heads;
  const Tensor all =
      affine(p, prefix + "qkv", x).reshape({B, T, heads + 2 * kv_heads, D}).transpose(1, 2);
  std::vector<Tensor> outputs;
  Tensor scores;
  std::vector<Tensor> each;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t kv = heads + h / (heads / kv_heads);
    each.push_back(matmul(all.select(1, h), all.select(1, kv).mT()) /
                   std::sqrt(static_cast<double>(D)));
  }
  scores = stack(each, 1);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (causal) scores = masked_fill(scores, gt(arange(T), arange(T).unsqueeze(1)), -infinity);
  if (mask.defined()) scores = masked_fill(scores, logical_not(mask), -infinity);
  const Tensor weights = dropout(softmax(scores), drop);
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t kv = heads + kv_heads + h / (heads / kv_heads);
    outputs.push_back(matmul(weights.select(1, h), all.select(1, kv)));
  }
  return dropout(affine(p, prefix + "proj", cat(outputs, -1)), drop);
}

Tensor mlp_of(const Parameters& p, const std::string& prefix, const Tensor& x,
              Activation activation, double drop) {
  return dropout(affine(p, prefix + "proj", activate(affine(p, prefix + "fc", x), activation)),
                 drop);
}

Tensor block_of(const Parameters& p, const std::string& prefix, const Tensor& x,
                const nn::BlockOptions& o) {
  const int64_t kv_heads = o.kv_heads == 0 ? o.heads : o.kv_heads;
  const auto shifted = [&](const Tensor& y, const std::string& name) {
    const Tensor mu = find(p, prefix + name);
    if (!mu.defined()) return y;
    const Tensor before = cat({zeros_like(y.slice(1, 0, 1)), y.slice(1, 0, -1)}, 1);
    return y * (1.0 - mu) + before * mu;
  };
  const auto attend = [&](const Tensor& x_) {
    const Tensor y = shifted(x_, "shift1");
    return attention_of(p, prefix + "attn.", y, o.heads, kv_heads, o.causal, o.dropout);
  };
  const auto mlp = [&](const Tensor& x_) {
    const Tensor y = shifted(x_, "shift2");
    return mlp_of(p, prefix + "mlp.", y, o.activation, o.dropout);
  };
  const auto ln1 = [&](const Tensor& y) { return norm_of(p, prefix + "ln1", y, o.eps); };
  const auto ln2 = [&](const Tensor& y) { return norm_of(p, prefix + "ln2", y, o.eps); };
  if (o.norm_first) {
    const Tensor h = x + attend(ln1(x));
    return h + mlp(ln2(h));
  }
  const Tensor h = ln1(x + attend(x));
  return ln2(h + mlp(h));
}

/// Checks that outputs and gradients of x are equal for the same random numbers.
void check_same(const std::function<Tensor(const Tensor&)>& layer,
                const std::function<Tensor(const Tensor&)>& expected, const Tensor& x) {
  auto run = [&](const auto& f) {
    manual_seed(12);
    const Tensor leaf = x.detach().requires_grad_(), y = f(leaf);
    manual_seed(13);
    return std::pair{y.detach(),
                     grad({y}, {leaf}, {.grad_outputs = {randn(y.shape(), y.dtype())}})};
  };
  const auto [y, dx] = run(layer);
  const auto [y_expected, dx_expected] = run(expected);
  CHECK(difference(y, y_expected) < 1e-4);
  CHECK(difference(dx[0], dx_expected[0]) < 1e-4);
  manual_seed(12);  // the same without a backward pass
  const NoGrad no_grad;
  CHECK(difference(layer(x), y_expected) < 1e-4);
}

}  // namespace

TEST_CASE("linear layers and norms: every option", "[nn]") {
  manual_seed(1);
  const Tensor x = randn({3, 5, 8});
  for (bool bias : {true, false}) {
    const nn::Linear linear(8, 6, {.bias = bias});
    const Parameters p = randomised(linear);
    CHECK(p.size() == (bias ? 2 : 1));
    const nn::LayerNorm norm(8, {.eps = 0.7, .bias = bias});
    const Parameters q = randomised(norm);
    CHECK(q.size() == (bias ? 2 : 1));
    auto named = [](const Parameters& parameters) {
      Parameters out;
      for (const auto& [name, tensor] : parameters) out["it." + name] = tensor;
      return out;
    };
    for (Activation a : activations)
      check_same([&](const Tensor& t) { return linear(t, a); },
                 [&](const Tensor& t) { return activate(affine(named(p), "it", t), a); }, x);
    check_same([&](const Tensor& t) { return norm(t); },
               [&](const Tensor& t) { return norm_of(named(q), "it", t, 0.7); }, x);
  }
}

TEST_CASE("the feed-forward layer: every option", "[nn]") {
  manual_seed(2);
  const Tensor x = randn({3, 5, 8});
  for (Activation a : activations)
    for (bool bias : {true, false}) {
      const nn::MLP mlp(8, {.hidden = 20, .activation = a, .bias = bias, .dropout = 0.3});
      const Parameters p = randomised(mlp);
      CHECK(p.at("fc.weight").shape() == Shape{20, 8});
      check_same([&](const Tensor& t) { return mlp(t); },
                 [&](const Tensor& t) { return mlp_of(p, "", t, a, 0.3); }, x);
    }
  CHECK(nn::MLP(8).fc.weight.shape() == Shape{32, 8});
}

TEST_CASE("self-attention: every option, with and without a cache", "[nn]") {
  manual_seed(3);
  for (int64_t T : {1, 3, 9})
    for (int64_t kv_heads : {0, 1, 2, 4})
      for (bool causal : {false, true}) {
        const nn::MultiHeadAttention attention(
            16,
            {.heads = 4, .kv_heads = kv_heads, .causal = causal, .bias = T != 3, .dropout = 0.3});
        const Parameters p = randomised(attention);
        const Tensor x = randn({2, T, 16}),
                     mask = logical_or(gt(rand({2, 1, T, T}), 0.4),
                                       eq(arange(T), arange(T).unsqueeze(1)));
        const int64_t kv = kv_heads == 0 ? 4 : kv_heads;
        auto expected = [&](const Tensor& t) { return attention_of(p, "", t, 4, kv, causal, 0.3); };
        check_same([&](const Tensor& t) { return attention(t); }, expected, x);
        check_same(
            [&](const Tensor& t) { return attention(t, mask); },
            [&](const Tensor& t) { return attention_of(p, "", t, 4, kv, causal, 0.3, mask); }, x);
        if (!causal) continue;
        const NoGrad no_grad;
        nn::KeyValueCache cache = attention.make_cache(2, T);
        CHECK(cache.keys().shape() == Shape{2, kv, 0, 4});
        manual_seed(12);
        const Tensor y = attention(x, cache);
        manual_seed(12);
        CHECK(difference(y, expected(x)) < 1e-5);
      }
}

TEST_CASE("the transformer block: every option, with and without a cache", "[nn]") {
  manual_seed(4);
  const Tensor x = randn({2, 7, 16});
  for (const nn::BlockOptions& o : {nn::BlockOptions{.heads = 4},
                                    nn::BlockOptions{.heads = 4,
                                    .kv_heads = 2,
                                    .hidden = 24,
                                    .activation = Activation::relu,
                                    .causal = true,
                                    .bias = false,
                                    .dropout = 0.2,
                                    .eps = 0.6},
                                    nn::BlockOptions{.heads = 2,
                                    .activation = Activation::gelu_tanh,
                                    .causal = true,
                                    .dropout = 0.4,
                                    .norm_first = false,
                                    .eps = 0.01},
                                    nn::BlockOptions{.heads = 4, .token_shift = true},
                                    nn::BlockOptions{.heads = 4,
                                    .kv_heads = 1,
                                    .activation = Activation::relu_squared,
                                    .causal = true,
                                    .dropout = 0.3,
                                    .norm_first = false,
                                    .token_shift = true}}) {
    const nn::Block block(16, o);
    CHECK(block.shift1.defined() == o.token_shift);
    const Parameters p = randomised(block);
    CHECK(p.contains("mlp.fc.bias") == o.bias);
    CHECK(p.contains("ln1.bias") == o.bias);
    CHECK(p.at("mlp.fc.weight").size(0) == (o.hidden == 0 ? 64 : o.hidden));
    auto expected = [&](const Tensor& t) { return block_of(p, "", t, o); };
    check_same([&](const Tensor& t) { return block(t); }, expected, x);
    {
      const EvalMode eval;
      check_same([&](const Tensor& t) { return block(t); }, expected, x);
    }
    if (!o.causal) continue;
    const NoGrad no_grad;
    nn::KeyValueCache cache = block.attn.make_cache(2, 7);
    manual_seed(12);
    const Tensor y = block(x, cache);
    manual_seed(12);
    CHECK(difference(y, expected(x)) < 1e-5);
  }
}

TEST_CASE("the transformer block: computing only the first tokens gives the same tokens", "[nn]") {
  manual_seed(4);
  const Tensor x = randn({2, 7, 16});
  const nn::BlockOptions options{.heads = 4, .kv_heads = 2, .hidden = 24};
  nn::BlockOptions post_norm = options;
  post_norm.norm_first = false;
  for (const nn::Block& block : {nn::Block(16, options), nn::Block(16, post_norm)})
    for (const int64_t count : {1, 3, 7})
      check_same([&](const Tensor& t) { return block.first(count, t); },
                 [&](const Tensor& t) { return block(t).slice(1, 0, count); }, x);
  const nn::Block block(16, options);
  for (const int64_t count : {-1, 0, 8})
    CHECK_THROWS_WITH(block.first(count, x), Contains("Block::first: expected 1 to 7 tokens, got " +
                                                      std::to_string(count)));
  CHECK_THROWS_AS(block.first(1, x[0]), Error);
  for (const nn::BlockOptions& o :
       {nn::BlockOptions{.heads = 4, .causal = true}, nn::BlockOptions{.heads = 4, .rotary = 9}})
    CHECK_THROWS_WITH(
        nn::Block(16, o).first(1, x),
        Contains("Block::first: expected attention that is neither causal nor rotary"));
  CHECK_THROWS_WITH(nn::llama_block(16, {.heads = 4}).first(1, x), Contains("Block::first: "));
  for (const nn::BlockOptions& o : {nn::BlockOptions{.heads = 4, .value_shortcut = true},
                                    nn::BlockOptions{.heads = 4, .token_shift = true}}) {
    CHECK_THROWS_WITH(nn::Block(16, o).first(1, x),
                      "Block::first: expected neither token_shift nor value_shortcut");
    CHECK_THROWS_WITH(nn::DecoderBlock(16, o),
                      "DecoderBlock: expected neither value_shortcut nor token_shift");
  }
  nn::BlockOptions all{.heads = 4, .kv_heads = 2, .head_dim = 6, .hidden = 20, .bias = false};
  all.gated = all.qkv_bias = all.qk_norm = true, all.norm = nn::NormKind::rms, all.eps = 0.3;
  const nn::Block normed(16, all);
  check_same([&](const Tensor& t) { return normed.first(3, t); },
             [&](const Tensor& t) { return normed(t).slice(1, 0, 3); }, x);
  CHECK_THROWS_WITH(nn::token_shift(ones({3, 4}), ones({4})),
                    "token_shift: expected x (B, T, dim), got (3, 4)");
}

TEST_CASE("token_shift: the previous token, and a cache's", "[nn]") {
  const Tensor x = tensor({{{1, 10}, {2, 20}, {4, 40}}}), weight = tensor({0.5, 1});
  const NoGrad no_grad;
  CHECK(difference(nn::token_shift(x, weight), {0.5, 0, 1.5, 10, 3, 20}) == 0);
  CHECK(difference(nn::token_shift(x, {}), x) == 0);
  CHECK(difference(nn::token_shift(x.slice(1, 0, 1), weight), {0.5, 0}) == 0);
  nn::KeyValueCache cache(1, 1, 9, 2);
  CHECK(difference(nn::token_shift(x.slice(1, 0, 2), weight, cache, 0), {0.5, 0, 1.5, 10}) == 0);
  CHECK(difference(nn::token_shift(x.slice(1, 0, 1), weight, cache, 1), {0.5, 0}) == 0);
  CHECK(difference(nn::token_shift(x.slice(1, 2), weight, cache, 0), {3, 20}) == 0);
  for (const Tensor& other : {ones({1}), ones({3}), ones({2}, float64)})
    CHECK_THROWS_WITH(nn::token_shift(full({1, 1, 2}, 9), other, cache, 0),
                      Contains("token_shift: expected a weight of float32 (2,), got "));
  CHECK_THROWS_WITH(nn::token_shift(x, weight, cache, 2),
                    "KeyValueCache: expected sublayer 0 or 1, got 2");
  CHECK(difference(nn::token_shift(x.slice(1, 2), weight, cache, 0), {4, 40}) == 0);
  cache.clear();
  CHECK(difference(nn::token_shift(x.slice(1, 2), weight, cache, 0), {2, 0}) == 0);
}

TEST_CASE("rows of several examples: masks, and token_shift within each example", "[nn]") {
  const Tensor positions = tensor({{0, 1, 0}, {0, 0, 1}}, int64);
  const Tensor mask = nn::same_example(zeros({2, 3, 2}), positions);
  CHECK(mask.shape() == Shape{2, 1, 3, 3});
  CHECK(difference(mask, {1, 1, 1, 1, 1, 1, 0, 0, 1,  // the last token starts an example
                          1, 1, 1, 0, 1, 1, 0, 1, 1}) == 0);
  const Tensor row = tensor({{{1, 10}, {2, 20}, {4, 40}}}), weight = tensor({0.5, 1});
  CHECK(difference(nn::token_shift(cat({row, row}), weight, mask),
                   {0.5, 0, 1.5, 10, 2, 0, 0.5, 0, 1, 0, 3, 20}) == 0);
  CHECK_THROWS_WITH(nn::token_shift(row, weight, ones({1, 1, 3, 3})),
                    "token_shift: expected a mask of bool (1, 1, 3, 3), got float32 (1, 1, 3, 3)");
}

TEST_CASE("two-dimensional convolution layers: every option and the bias", "[nn]") {
  manual_seed(6);
  const Tensor x = randn({2, 4, 9, 8});
  const nn::Conv2d layer(4, 6, {3, 2},
                         {.stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}, .groups = 2});
  // A dilated filter is a larger one with zeros between its elements.
  check_same([&](const Tensor& t) { return layer(t); },
             [&](const Tensor& t) {
               const Tensor filters = zeros({6, 2, 5, 4});
               filters.slice(2, 0, 5, 2).slice(3, 0, 4, 3).copy_(layer.weight.detach());
               return conv2d(t, filters, {}, {.stride = {2, 1}, .padding = {1, 2}, .groups = 2}) +
                      layer.bias.reshape({6, 1, 1});
             },
             x);
  const nn::ConvTranspose2d transposed(4, 6, 3, {.groups = 2});
  CHECK(difference(transposed(x), conv_transpose2d(x, transposed.weight, {}, {.groups = 2}) +
                                      transposed.bias.reshape({6, 1, 1})) < 1e-5);
}

TEST_CASE("a one-dimensional convolution layer: every option and the bias", "[nn]") {
  manual_seed(9);
  const Tensor x = randn({2, 4, 11});
  const nn::Conv1d layer(4, 6, 3, {.stride = 2, .padding = 3, .dilation = 2, .groups = 2});
  check_same([&](const Tensor& t) { return layer(t); },
             [&](const Tensor& t) {
               const Tensor filters = zeros({6, 2, 5});
               filters.slice(2, 0, 5, 2).copy_(layer.weight.detach());
               return conv1d(t, filters, {}, {.stride = 2, .padding = 3, .groups = 2}) +
                      layer.bias.reshape({6, 1});
             },
             x);
}

TEST_CASE("a block's call that throws leaves the cache unchanged", "[nn]") {
  manual_seed(3);
  const NoGrad no_grad;
  const Tensor x = randn({1, 4, 8});
  for (const auto& [capacity, positions] : {std::pair{4, 9}, {9, 4}}) {  // one is exceeded
    const nn::Block block(8,
                          {.heads = 2, .causal = true, .rotary = positions, .token_shift = true});
    for (const Tensor& shift : {block.shift1, block.shift2}) shift.fill_(0.5);
    nn::KeyValueCache cache = block.attn.make_cache(1, capacity);
    block(x.slice(1, 0, 3), cache);
    CHECK_THROWS_AS(block(randn({1, 2, 8}), cache), Error);
    CHECK(difference(block(x.slice(1, 3), cache), block(x).slice(1, 3)) < 1e-5);
  }
}

TEST_CASE("GPT: every option of its configuration", "[gpt]") {
  manual_seed(5);
  const Tensor ids = randint(0, 11, {2, 6}), targets = randint(0, 11, {2, 6});
  for (const models::GPTConfig& c :
       {models::GPTConfig{.vocab = 11, .context = 9, .layers = 1, .heads = 2, .dim = 8},
        models::GPTConfig{.vocab = 11,
        .context = 6,
        .layers = 3,
        .heads = 4,
        .dim = 16,
        .dropout = 0.25,
        .bias = true,
        .tie = false,
        .activation = Activation::gelu_tanh}}) {
    const models::GPT model(c);
    const Parameters p = randomised(model);
    CHECK(p.contains("head.weight") == !c.tie);
    CHECK(p.at("wpe.weight").shape() == Shape{c.context, c.dim});
    const nn::BlockOptions o{.heads = c.heads,
                             .activation = c.activation,
                             .causal = true,
                             .bias = c.bias,
                             .dropout = c.dropout};
    auto expected = [&] {
      const Tensor tokens = index_select(p.at("wte.weight"), 0, ids.reshape({12}));
      Tensor x = tokens.reshape({2, 6, c.dim}) + p.at("wpe.weight").slice(0, 0, 6);
      x = dropout(x, c.dropout);
      for (int64_t i = 0; i < c.layers; ++i)
        x = block_of(p, "blocks." + std::to_string(i) + ".", x, o);
      x = norm_of(p, "ln_f", x, 1e-5);
      return matmul(x, p.at(c.tie ? "wte.weight" : "head.weight").mT());
    };
    for (bool eval : {false, true}) {
      const EvalMode mode(eval);
      manual_seed(6);
      const Tensor logits = model(ids);
      manual_seed(6);
      const Tensor wanted = expected();
      CHECK(difference(logits, wanted) < 1e-4);
      const Tensor log_p = log_softmax(wanted);
      const Tensor picked = gather(log_p, -1, targets.unsqueeze(-1));
      manual_seed(6);
      CHECK(model.loss(ids, targets).item() == Approx(-mean(picked).item()).epsilon(1e-4));
    }
  }
}

TEST_CASE("buffers: listed, saved unless temporary, converted, never trained", "[nn]") {
  struct Counted : nn::Module {
    const Tensor scale, count, hidden;
    Counted()
        : scale(param("scale", ones({2}))),
          count(buffer("count", zeros({1}))),
          hidden(buffer("hidden", ones({3}), /*persistent=*/false)) {}
  };
  Counted module;
  const nn::SinusoidalPositions positions(4, 6);
  CHECK(positions.parameters().empty());
  CHECK(positions.state_dict().empty());
  CHECK(positions.named_buffers().size() == 1);
  CHECK(module.parameters().size() == 1);
  CHECK(module.num_parameters() == 2);
  CHECK(module.named_buffers().size() == 2);
  const NamedTensors state = module.state_dict();
  REQUIRE(state.size() == 2);
  CHECK(state[0].first == "scale");
  CHECK(state[1].first == "count");
  CHECK(!state[0].second.requires_grad());
  module.load_state_dict({{"scale", tensor({3, 4})}, {"count", tensor({7})}});
  CHECK(module.count.item() == 7);
  CHECK_THROWS_AS(module.load_state_dict({{"scale", tensor({3, 4})}}), Error);
  module.load_state_dict({{"count", tensor({9})}, {"other", tensor({1})}}, /*strict=*/false);
  CHECK(module.count.item() == 9);
  module.to(float64);
  CHECK(module.hidden.dtype() == float64);
  CHECK(module.scale.dtype() == float64);
  CHECK(module.scale.requires_grad());
}

}  // namespace layer_options_test
