// Attention and feed-forward layers of all sizes, against formulas computed here from their
// parameters.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/gradus.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace attention_layer_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

/// Rotates pairs of neighbouring features by the angles of positions offset, offset + 1, ...: x (B,
/// T, D).
Tensor rotated(const Tensor& x, int64_t offset) {
  const int64_t T = x.size(1), D = x.size(2);
  std::vector<Tensor> columns;
  const Tensor place = (arange(T).to(x.dtype()) + static_cast<double>(offset)).unsqueeze(1);
  for (int64_t i = 0; i < D; i += 2) {
    const Tensor angle = place / std::pow(10000.0, static_cast<double>(i) / static_cast<double>(D));
    const Tensor even = x.slice(2, i, i + 1), odd = x.slice(2, i + 1, i + 2);
    columns.push_back(even * cos(angle) - odd * sin(angle));
    columns.push_back(odd * cos(angle) + even * sin(angle));
  }
  return cat(columns, 2);
}

/// Attention of x to `memory`, head by head.
Tensor by_hand(const nn::MultiHeadAttention& a, const Tensor& x, const Tensor& memory,
               const Tensor& mask = {}) {
  auto part = [&](const Tensor& of, int64_t begin, int64_t size) {
    const Tensor y = matmul(of, a.qkv.weight.slice(0, begin, begin + size).mT());
    return a.qkv.bias.defined() ? y + a.qkv.bias.slice(0, begin, begin + size) : y;
  };
  std::vector<Tensor> outputs;
  for (int64_t h = 0; h < a.heads; ++h) {
    const int64_t kv = h / (a.heads / a.kv_heads), keys = a.heads * a.key_dim,
                  values = keys + a.kv_heads * a.key_dim;
    Tensor q = part(x, h * a.key_dim, a.key_dim),
           k = part(memory, keys + kv * a.key_dim, a.key_dim);
    const Tensor v = part(memory, values + kv * a.value_dim, a.value_dim);
    auto normalised = [](const Tensor& y, const nn::RMSNorm& norm) {
      return y / sqrt(mean(y * y, -1, keepdim) + norm.eps) * norm.weight;
    };
    if (a.q_norm) q = normalised(q, *a.q_norm), k = normalised(k, *a.k_norm);
    if (a.positions.defined()) q = rotated(q, 0), k = rotated(k, 0);
    Tensor scores = matmul(q, k.mT()) / std::sqrt(static_cast<double>(a.key_dim));
    const Tensor steps_back = arange(q.size(1)).unsqueeze(1) - arange(k.size(1));
    if (a.causal) scores = masked_fill(scores, steps_back < 0, -INFINITY);
    if (a.window > 0) scores = masked_fill(scores, steps_back >= a.window, -INFINITY);
    if (mask.defined()) {
      const Tensor own = mask.rank() == 4 ? mask.select(1, h) : mask;
      scores = own.dtype() == boolean ? masked_fill(scores, !own, -INFINITY) : scores + own;
    }
    outputs.push_back(matmul(softmax(scores), v));
  }
  const Tensor y = matmul(cat(outputs, -1), a.proj.weight.mT());
  return a.proj.bias.defined() ? y + a.proj.bias : y;
}

/// Sets the gains of the norms of queries and keys, 1 at first, to different values.
void set_gains(const nn::MultiHeadAttention& a) {
  const NoGrad no_grad;
  if (!a.q_norm) return;
  a.q_norm->weight.copy_(randn(a.q_norm->weight.shape()));
  a.k_norm->weight.copy_(randn(a.k_norm->weight.shape()));
}

using Function = std::function<Tensor(const Tensor&, const Tensor&)>;

/// Checks that outputs and gradients of both inputs are equal.
void check_same(const Function& layer, const Function& expected, const Tensor& x, const Tensor& y) {
  auto apply = [](const Function& f) {
    return [f](const std::vector<Tensor>& in) {
      return f(in[0], in[1]) + sum(in[0] * 0.0) + sum(in[1] * 0.0);
    };
  };
  CHECK(difference(apply(layer), apply(expected), {x, y}) < 1e-5);
}

}  // namespace

TEST_CASE("multi-head attention: equals its formula with every option, also with a cache",
          "[nn][attention]") {
  manual_seed(1);
  const std::vector<nn::MultiHeadAttentionOptions> all{
      {.heads = 3, .key_dim = 4, .value_dim = 2},
      {.heads = 2, .key_dim = 2, .value_dim = 7, .causal = true},
      {.heads = 4, .kv_heads = 2, .key_dim = 6, .value_dim = 6, .causal = true, .bias = false},
      {.heads = 1, .key_dim = 1, .value_dim = 1, .causal = true},
      {.heads = 4, .kv_heads = 1, .key_dim = 4, .value_dim = 3, .rotary = 12, .causal = true},
      {.heads = 1, .rotary = 12, .causal = true},
      {.heads = 5, .kv_heads = 5, .rotary = 9, .bias = false},
      {.heads = 2, .causal = true, .window = 1},
      {.heads = 4, .kv_heads = 2, .key_dim = 4, .value_dim = 3, .causal = true, .window = 3},
      {.heads = 2, .causal = true, .window = 9},
      {.heads = 4, .kv_heads = 2, .rotary = 9, .causal = true, .qk_norm = true, .eps = 0.3},
      {.heads = 2, .key_dim = 4, .value_dim = 3, .bias = false, .qk_norm = true},
      {.heads = 4, .kv_heads = 1, .key_dim = 6, .value_dim = 2, .causal = true, .qk_norm = true}};
  for (const nn::MultiHeadAttentionOptions& o : all) {
    const int64_t dim = o.heads == 5 ? 20 : o.key_dim == 0 && o.heads == 4 ? 8 : 10;
    const nn::MultiHeadAttention attention(dim, o);
    set_gains(attention);
    CAPTURE(o.heads, o.kv_heads, o.key_dim, o.value_dim, o.rotary, o.causal, o.window);
    for (const int64_t T : {1, 2, 9}) {
      const Tensor x = randn({2, T, dim}), none = randn({1});
      check_same([&](auto& a, auto&) { return attention(a); },
                 [&](auto& a, auto&) { return by_hand(attention, a, a); }, x, none);
      if (!o.causal) continue;
      const NoGrad no_grad;
      nn::KeyValueCache cache = attention.make_cache(2, T);
      std::vector<Tensor> pieces;
      for (int64_t t = 0; t < T; t += t == 1 ? 4 : 1)
        pieces.push_back(
            attention(x.slice(1, t, t + (t == 1 ? std::min<int64_t>(4, T - 1) : 1)), cache));
      CHECK(difference(cat(pieces, 1), attention(x)) < 1e-5);
    }
  }
}

TEST_CASE("cross-attention: equals its formula with any sizes, masks and projected memory",
          "[nn][attention]") {
  manual_seed(2);
  for (const nn::MultiHeadAttentionOptions& o :
       {nn::MultiHeadAttentionOptions{.heads = 2},
        nn::MultiHeadAttentionOptions{.heads = 4, .kv_heads = 2, .key_dim = 3, .value_dim = 5},
        nn::MultiHeadAttentionOptions{.heads = 1, .key_dim = 7, .value_dim = 1, .bias = false},
        nn::MultiHeadAttentionOptions{
            .heads = 4, .kv_heads = 2, .key_dim = 3, .qk_norm = true, .eps = 0.2}}) {
    const nn::MultiHeadAttention attention(8, o);
    set_gains(attention);
    for (const int64_t T : {1, 5}) {
      const Tensor x = randn({3, T, 8}), memory = randn({3, 6, 8});
      const Tensor mask = nn::padding_mask(from_data<int64_t>({6, 1, 4}, {3}), 3, 6);
      check_same([&](auto& a, auto& m) { return attention.cross(a, m); },
                 [&](auto& a, auto& m) { return by_hand(attention, a, m); }, x, memory);
      check_same([&](auto& a, auto& m) { return attention.cross(a, m, mask); },
                 [&](auto& a, auto& m) { return by_hand(attention, a, m, mask.squeeze(1)); }, x,
                 memory);
      const NoGrad no_grad;
      CHECK(difference(attention.cross(x, attention.keys_and_values(memory)),
                       attention.cross(x, memory)) == 0);
    }
  }
}

TEST_CASE("multi-head attention: a mask for each head, bool or added, beside other options",
          "[nn][attention]") {
  manual_seed(8);
  const std::vector<nn::MultiHeadAttentionOptions> all{
      {.heads = 4, .kv_heads = 2},
      {.heads = 4, .kv_heads = 2, .key_dim = 3, .value_dim = 5},
      {.heads = 2, .key_dim = 3, .value_dim = 5, .causal = true, .window = 2, .qk_norm = true},
      {.heads = 2, .key_dim = 4, .value_dim = 3, .rotary = 5, .bias = false, .qkv_bias = true}};
  for (const nn::MultiHeadAttentionOptions& o : all) {
    nn::MultiHeadAttention attention(8, o);
    set_gains(attention);
    attention.to(float64);
    CHECK(attention.qkv.bias.defined());
    CHECK(attention.proj.bias.defined() == o.bias);
    // With `kept`, some tokens may attend to no token.
    const Tensor x = randn({2, 5, 8}, float64), added = randn({2, o.heads, 5, 5}, float64),
                 kept = rand({2, o.heads, 5, 5}) > 0.6;
    check_same([&](auto& a, auto&) { return attention(a, kept); },
               [&](auto& a, auto&) { return by_hand(attention, a, a, kept); }, x, added);
    check_same([&](auto& a, auto& m) { return attention(a, m); },
               [&](auto& a, auto& m) { return by_hand(attention, a, a, m); }, x, added);
    if (o.causal || o.rotary > 0) continue;
    check_same([&](auto& a, auto& m) { return attention.cross(a, a * 2.0, m); },
               [&](auto& a, auto& m) { return by_hand(attention, a, a * 2.0, m); }, x, added);
  }
}

TEST_CASE("the decoder block: every option reaches its parts, with and without a cache", "[nn]") {
  manual_seed(9);
  nn::BlockOptions o{.heads = 4, .kv_heads = 2, .head_dim = 6, .hidden = 20, .bias = false};
  o.gated = o.qkv_bias = o.qk_norm = true, o.activation = Activation::silu;
  o.norm_first = GENERATE(true, false), o.norm = nn::NormKind::rms, o.eps = 0.3;
  o.rotary = 6, o.window = 3;
  nn::DecoderBlock block(16, o);
  block.to(float64);
  block.initialise([](auto&, const Tensor& p) { p.copy_(randn(p.shape(), float64) * 0.5); });
  for (const nn::MultiHeadAttention& a : {block.attn, block.cross}) {
    CHECK((a.heads == 4 && a.kv_heads == 2 && a.key_dim == 6 && a.value_dim == 6));
    CHECK((a.qkv.bias.defined() && !a.proj.bias.defined() && a.q_norm && a.q_norm->eps == 0.3));
  }
  CHECK((block.attn.causal && block.attn.window == 3 && block.attn.positions.defined()));
  const auto residual = [&](const nn::Norm& norm, const Tensor& y, const auto& f) {
    const auto rms = [&](const Tensor& t) {
      return t / sqrt(mean(t * t, -1, keepdim) + 0.3) * norm.weight;
    };
    return o.norm_first ? y + f(rms(y)) : rms(y + f(y));
  };
  const Tensor x = randn({2, 6, 16}, float64), memory = randn({2, 4, 16}, float64);
  const Tensor mask = nn::padding_mask(from_data<int64_t>({4, 2}, {2}), 2, 4);
  const auto expected = [&](const Tensor& t, const Tensor& m) {
    const Tensor h =
        residual(block.ln1, t, [&](const Tensor& y) { return by_hand(block.attn, y, y); });
    const Tensor g = residual(
        block.ln2, h, [&](const Tensor& y) { return by_hand(block.cross, y, m, mask.squeeze(1)); });
    return residual(block.ln3, g, [&](const Tensor& y) {
      const Tensor all = matmul(y, block.mlp.fc.weight.mT());
      return matmul(silu(all.slice(-1, 0, 20)) * all.slice(-1, 20), block.mlp.proj.weight.mT());
    });
  };
  check_same([&](auto& t, auto& m) { return block(t, block.cross.keys_and_values(m), mask); },
             expected, x, memory);
  const NoGrad no_grad;
  const nn::KeysAndValues prepared = block.cross.keys_and_values(memory);
  nn::KeyValueCache cache = block.attn.make_cache(2, 6);
  const Tensor start = block(x.slice(1, 0, 4), prepared, mask, &cache),
               end = block(x.slice(1, 4), prepared, mask, &cache);
  CHECK(difference(cat({start, end}, 1), expected(x, memory)) < 1e-12);
}

TEST_CASE("multi-head attention: dropout of weights and of the output, each its own",
          "[nn][attention]") {
  manual_seed(7);
  // One token to attend to has weight 1: a head's values are kept, and so is each output, with
  // probability a half each. What is kept is doubled twice.
  constexpr int64_t B = 4000;
  for (const int64_t value_dim : {2, 3}) {
    const nn::MultiHeadAttention attention(
        4, {.heads = 2, .key_dim = 2, .value_dim = value_dim, .causal = true, .dropout = 0.5});
    const nn::MultiHeadAttention crossing(
        4, {.heads = 2, .key_dim = 2, .value_dim = value_dim, .dropout = 0.5});
    const NoGrad no_grad;
    const Tensor x = ones({B, 1, 4});
    auto check_draws = [&](const nn::MultiHeadAttention& layer, auto&& f) {
      layer.proj.weight.copy_(
          eye(2 * value_dim).slice(0, 0, 4));  // outputs 0 and 1 are the first head's
      layer.proj.bias.zero_();
      const Tensor plain = [&] {
        const EvalMode eval;
        return f();
      }();
      const std::vector<double> ratio = (f() / plain).reshape({-1}).template to_vector<double>();
      int kept = 0, head_kept = 0, others = 0;
      for (size_t i = 0; i < ratio.size(); i += 4) {
        for (size_t j = i; j < i + 4; ++j) others += ratio[j] != 0 && std::abs(ratio[j] - 4) > 1e-4;
        kept += ratio[i] > 0, head_kept += ratio[i] > 0 || ratio[i + 1] > 0;
      }
      CHECK(others == 0);
      CHECK(std::abs(kept - B / 4) < 160);           // a half of a half
      CHECK(std::abs(head_kept - B * 3 / 8) < 160);  // a half of 3/4: both share the head's draw
    };
    check_draws(attention, [&] { return attention(x); });
    check_draws(attention, [&] {
      nn::KeyValueCache cache = attention.make_cache(B, 1);
      return attention(x, cache);
    });
    check_draws(crossing, [&] { return crossing.cross(x, x); });
  }
}

TEST_CASE("multi-head attention: bad arguments throw", "[nn][attention]") {
  using Options = nn::MultiHeadAttentionOptions;
  auto refused = [](int64_t dim, const Options& o) {
    return error_of([&] { nn::MultiHeadAttention(dim, o); });
  };
  CHECK_THAT(refused(10, {.heads = 3, .key_dim = 2}), Contains("heads must divide dim"));
  CHECK_THAT(refused(0, {}), Contains("expected dim and heads from 1"));
  CHECK_THAT(refused(8, {.heads = 2, .key_dim = -1}), Contains("key_dim and value_dim >= 0"));
  CHECK_THAT(refused(8, {.heads = 2, .key_dim = INT64_MAX}),
             Contains("key_dim and value_dim >= 0"));
  CHECK_THAT(refused(6, {.heads = 2, .rotary = 4}), Contains("an even key_dim, got 3"));
  CHECK_THAT(refused(8, {.heads = 2, .rotary = -4}), Contains("expected rotary >= 0, got -4"));
  CHECK_THAT(refused(8, {.causal = true, .window = -4}),
             Contains("expected window >= 0, and 0 unless causal, got -4"));
  CHECK_THAT(refused(8, {.window = 4}),
             Contains("expected window >= 0, and 0 unless causal, got 4"));
  for (const Shape& other : {Shape{3, 4}, Shape{4, 8}, Shape{4}})  // a table to share
    CHECK_THAT(refused(8, {.heads = 2, .rotary = 4, .positions = ones(other)}),
               Contains("expected positions of float32 (4, 4)"));
  CHECK_THAT(refused(8, {.heads = 2, .rotary = 4, .positions = ones({4, 4}, int64)}),
             Contains("expected positions of float32 (4, 4), got int64 (4, 4)"));
  const nn::MultiHeadAttention causal(8, {.heads = 2, .causal = true}),
      turning(8, {.heads = 2, .rotary = 4}), plain(8, {.heads = 2});
  const Tensor x = ones({1, 5, 8});
  CHECK_THROWS_WITH(turning(x), Contains("5 tokens exceed the 4 rotary positions"));
  CHECK_THROWS_WITH(causal.cross(x, x), Contains("neither causal nor rotary"));
  CHECK_THROWS_WITH(turning.cross(x, x), Contains("neither causal nor rotary"));
  CHECK_THROWS_WITH(plain.cross(x, ones({2, 3, 8})), Contains("the same leading axes"));
  const nn::MultiHeadAttention mixing(8, {.heads = 2, .value_shortcut = true});
  Tensor unset;
  for (Tensor* first : {static_cast<Tensor*>(nullptr), &unset})
    CHECK_THROWS_WITH(mixing(x, {}, first), Contains("value_shortcut needs the values of a first"));
  CHECK_THROWS_WITH(mixing.cross(x, x), Contains("cross-attention has no value_shortcut"));
  CHECK_THROWS_WITH(plain.cross(x, ones({1, 3, 6})), Contains("linear: expected x (..., 8)"));
  CHECK_THROWS_WITH(plain(ones({5, 8})), Contains("expected x (B, T, dim), got (5, 8)"));
  CHECK_THROWS_WITH(plain.cross(x[0], x), Contains("expected x (B, T, dim), got (5, 8)"));
  CHECK_THROWS_WITH(plain.cross(x, x[0]), Contains("expected memory (B, T, dim), got (5, 8)"));
  CHECK_THROWS_WITH(plain(x, ones({1, 5, 8})), Contains("a mask that broadcasts"));
  CHECK_THROWS_WITH(nn::padding_mask(ones({2}), 2, 3), Contains("expected lengths of int64"));
}

TEST_CASE("multi-head attention with qk_norm: empty batches and sequences", "[nn][attention]") {
  const nn::MultiHeadAttention attention(8, {.heads = 2, .qk_norm = true});
  for (const Shape& shape : {Shape{0, 5, 8}, Shape{2, 0, 8}})
    CHECK(attention(zeros(shape)).shape() == shape);
}

TEST_CASE("the decoder block: a call that throws leaves the cache unchanged", "[nn]") {
  manual_seed(10);
  const NoGrad no_grad;
  const nn::DecoderBlock block(4, {.heads = 2});
  const Tensor x = randn({1, 2, 4});
  const nn::KeysAndValues memory = block.cross.keys_and_values(randn({1, 3, 4})),
                          two = block.cross.keys_and_values(randn({2, 3, 4}));
  nn::KeyValueCache cache = block.attn.make_cache(1, 8);
  block(x.slice(1, 0, 1), memory, {}, &cache);
  const Tensor next = x.slice(1, 1);
  CHECK_THROWS_AS(block(next, memory, ones({1, 1, 1, 7}).to(boolean), &cache), Error);
  CHECK_THROWS_AS(block(next, two, {}, &cache), Error);
  CHECK_THROWS_AS(block(next, {}, {}, &cache), Error);
  CHECK(cache.length() == 1);
  CHECK(difference(block(next, memory, {}, &cache), block(x, memory).slice(1, 1)) < 1e-5);
}

TEST_CASE("attention with one head: prepared keys, masks, bad arguments", "[nn][attention]") {
  manual_seed(3);
  for (const nn::Score score :
       {nn::Score::dot, nn::Score::scaled_dot, nn::Score::bilinear, nn::Score::additive}) {
    const bool any_sizes = score == nn::Score::bilinear || score == nn::Score::additive;
    const int64_t key_dim = any_sizes ? 5 : 4;
    const nn::Attention attention(score, 4, key_dim);
    const Tensor q = randn({2, 3, 4}).requires_grad_(), k = randn({2, 6, key_dim}),
                 v = randn({2, 6, 7});
    const Tensor mask = arange(6) < from_data<int64_t>({6, 2}, {2, 1, 1});
    const auto [output, weights] = attention(q, k, v, mask);
    CHECK(output.shape() == Shape{2, 3, 7});
    CHECK(difference(sum(weights, -1), ones({2, 3})) < 1e-6);
    CHECK(sum(weights[1].slice(1, 2)).item() == 0);
    CHECK(difference(matmul(weights, v), output) < 1e-6);
    CHECK(difference(attention.attend(q, attention.prepare(k), v, mask).output, output) == 0);
    const auto unseeing = attention(q, k, v, arange(3).unsqueeze(1) != 1);
    CHECK(difference(unseeing.weights.select(1, 1), zeros({2, 6})) == 0);
    CHECK(difference(unseeing.output.select(1, 1), zeros({2, 7})) == 0);
    const AttentionTrace trace;
    attention(q, k, v, mask);
    REQUIRE(trace.weights().size() == 1);
    CHECK(difference(trace.weights()[0], weights.detach().unsqueeze(1)) == 0);
    sum(output).backward();
    for (const Tensor& p : attention.parameters()) CHECK(p.grad().defined());
    CHECK_THROWS_WITH(attention(q, k, randn({2, 5, 7})), Contains("as many keys"));
    CHECK_THROWS_WITH(attention(q[0], k, v), Contains("expected queries (B, Tq, D)"));
    CHECK_THROWS_WITH(attention(q, k, v, mask.to(float32)), Contains("a mask of bool"));
    CHECK_THROWS_AS(attention(randn({2, 3, 3}), k, v), Error);
    // Batches do not broadcast, and padding_mask's shape is for several heads.
    const Tensor one = q.detach().slice(0, 0, 1);
    CHECK_THROWS_WITH(attention(one, k, v), Contains("expected queries (B, Tq, D)"));
    CHECK_THROWS_WITH(attention(q, k.slice(0, 0, 1), v), Contains("expected queries (B, Tq, D)"));
    CHECK_THROWS_WITH(attention(q, k, v.slice(0, 0, 1)), Contains("expected queries (B, Tq, D)"));
    CHECK_THROWS_WITH(attention(q, k, v, mask.unsqueeze(1)),
                      Contains("a mask that broadcasts to (2, 3, 6), got (2, 1, 1, 6)"));
    CHECK_THROWS_WITH(nn::Attention(score, 0, 0), Contains("expected sizes > 0"));
    if (!any_sizes) CHECK_THROWS_WITH(nn::Attention(score, 4, 5), Contains("have no dot product"));
  }
  CHECK_THROWS_WITH(nn::Attention(static_cast<nn::Score>(9), 4, 4), Contains("unknown score 9"));
}

TEST_CASE("attention's trace: limited to its scope and thread, weights before dropout",
          "[nn][attention]") {
  manual_seed(4);
  const nn::MultiHeadAttention attention(8, {.heads = 2, .causal = true, .dropout = 0.5});
  const Tensor x = randn({2, 4, 8});
  const AttentionTrace outer;
  {
    const AttentionTrace inner;
    attention(x);
    CHECK(inner.weights().size() == 1);
    CHECK(outer.weights().empty());
  }
  attention(x);
  attention(x);
  REQUIRE(outer.weights().size() == 2);
  CHECK(difference(outer.weights()[0], outer.weights()[1]) == 0);
  CHECK(outer.weights()[0].shape() == Shape{2, 2, 4, 4});
  CHECK_FALSE(outer.weights()[0].requires_grad());
  CHECK(difference(sum(outer.weights()[0], -1), ones({2, 2, 4})) < 1e-6);
}

TEST_CASE("attention's traces: destroyed in any order", "[nn][attention]") {
  const nn::MultiHeadAttention attention(4, {.heads = 1});
  std::optional<AttentionTrace> oldest(std::in_place), middle(std::in_place);
  {
    const AttentionTrace newest;
    middle.reset();
    attention(ones({1, 2, 4}));
    CHECK(newest.weights().size() == 1);
  }
  attention(ones({1, 2, 4}));
  CHECK(oldest->weights().size() == 1);
  oldest.reset();
  CHECK_FALSE(AttentionTrace::active());
}

TEST_CASE("feed-forward layers: gates and hidden dropout", "[nn]") {
  manual_seed(5);
  const Tensor x = randn({3, 5, 8}), none = randn({1});
  for (const Activation a : activations) {
    const nn::MLP mlp(8, {.hidden = 6, .activation = a, .gated = true});
    CHECK(mlp.fc.weight.shape() == Shape{12, 8});
    check_same([&](auto& t, auto&) { return mlp(t); },
               [&](auto& t, auto&) {
                 const Tensor h = matmul(t, mlp.fc.weight.mT()) + mlp.fc.bias;
                 const Tensor y = activate(h.slice(-1, 0, 6), a) * h.slice(-1, 6);
                 return matmul(y, mlp.proj.weight.mT()) + mlp.proj.bias;
               },
               x, none);
    for (const bool gated : {false, true}) {
      const nn::MLP within(8,
                           {.hidden = 6, .activation = a, .gated = gated, .hidden_dropout = 0.4});
      auto seeded = [](auto f) {
        return [f](auto& t, auto&) {
          manual_seed(7);
          return f(t);
        };
      };
      check_same(seeded([&](auto& t) { return within(t); }), seeded([&](auto& t) {
                   const Tensor h = within.fc(t);
                   const Tensor y =
                       gated ? activate(h.slice(-1, 0, 6), a) * h.slice(-1, 6) : activate(h, a);
                   return within.proj(dropout(y, 0.4));
                 }),
                 x, none);
    }
  }
  const nn::SwiGLU swiglu(96);
  CHECK(swiglu.fc.weight.shape() == Shape{2 * 256, 96});  // 8/3 96
  CHECK_FALSE(swiglu.fc.bias.defined());
  CHECK(swiglu.num_parameters() == 3 * 96 * 256);   // as many as an MLP: 8 96^2
  CHECK(nn::SwiGLU(10).proj.weight.size(1) == 32);  // 26.7, rounded up to a multiple of 8
  CHECK_THROWS_WITH(nn::SwiGLU(0), Contains("MLP: expected sizes > 0"));
  CHECK_THROWS_WITH(nn::SwiGLU(-5), Contains("MLP: expected sizes > 0"));
  CHECK(nn::RMSNorm(3).parameters().size() == 1);  // no bias
  CHECK_THROWS_WITH(nn::RMSNorm(0), Contains("RMSNorm"));
  CHECK_THROWS_WITH(nn::RMSNorm(4, -1), Contains("RMSNorm: expected eps >= 0"));
  for (const int64_t dim : {INT64_MAX, INT64_MIN}) {  // 8/3 of dim overflows
    CHECK(nn::SwiGLU::hidden_size(dim) % 8 == 0);
    CHECK_THROWS_AS(nn::llama_block(dim, {}), Error);
    CHECK_THROWS_AS(nn::SwiGLU(dim), Error);
  }
  CHECK(nn::SwiGLU::hidden_size(INT64_MAX) > 0);
  // Positions are required: without them the order of tokens would have no effect.
  CHECK_THROWS_WITH(nn::llama_block(8, {.context = 0}),
                    Contains("llama_block: expected context > 0"));
}

TEST_CASE("multi-head attention: value_shortcut mixes in the first layer's values",
          "[nn][attention]") {
  manual_seed(5);
  const nn::MultiHeadAttentionOptions options{
      .heads = 4, .kv_heads = 2, .key_dim = 3, .value_dim = 5, .causal = true};
  nn::MultiHeadAttentionOptions mixes = options;
  mixes.value_shortcut = true;
  const nn::MultiHeadAttention first(8, options), second(8, mixes);
  const nn::MultiHeadAttention plain(8, options);
  const Tensor x = randn({2, 5, 8});
  const NoGrad no_grad;
  second.value_shortcut.copy_(tensor({0.25, -2}));
  Tensor values;
  CHECK(difference(first(x, {}, &values), first(x)) == 0);
  const int64_t begin = 4 * 3 + 2 * 3;
  CHECK(difference(values, first.qkv.rows(x, begin, begin + 2 * 5)) < 1e-6);
  // The mix is linear, so one layer whose value rows are mixed computes it.
  plain.qkv.weight.copy_(second.qkv.weight), plain.qkv.bias.copy_(second.qkv.bias);
  plain.proj.weight.copy_(second.proj.weight), plain.proj.bias.copy_(second.proj.bias);
  for (const auto& [to, from] :
       {std::pair{plain.qkv.weight, first.qkv.weight}, std::pair{plain.qkv.bias, first.qkv.bias}}) {
    const Tensor rows = to.slice(0, begin);
    rows.copy_(rows * 0.25 + from.slice(0, begin) * -2.0);
  }
  Tensor retried;  // also after a call that fails
  CHECK_THROWS_AS(first(x * 2.0, ones({3, 3}), &retried), Error);
  first(x, {}, &retried);
  CHECK(difference(retried, values) == 0);
  const Tensor before = values.clone(), y = second(x, {}, &values);
  CHECK(difference(y, plain(x)) < 1e-5);
  CHECK(difference(values, before) == 0);
  nn::KeyValueCache cache = second.make_cache(2, 5), first_cache = first.make_cache(2, 5);
  for (int64_t t = 0; t < 5; ++t) {
    Tensor now;
    first(x.slice(1, t, t + 1), first_cache, &now);
    CHECK(difference(second(x.slice(1, t, t + 1), cache, &now), y.slice(1, t, t + 1)) < 1e-5);
  }
}

// ---- key/value caches ----

TEST_CASE("attention with a key/value cache equals attention over the whole sequence", "[nn]") {
  manual_seed(4);
  const NoGrad no_grad;
  for (int64_t kv_heads : {4, 2, 1}) {
    const nn::MultiHeadAttention attention(16, {.heads = 4, .kv_heads = kv_heads, .causal = true});
    const Tensor x = randn({3, 7, 16});
    const Tensor full_pass = attention(x);
    nn::KeyValueCache cache = attention.make_cache(3, 7);
    int64_t begin = 0;
    for (int64_t end : {3, 4, 5, 7}) {
      const Tensor y = attention(x.slice(1, begin, end), cache);
      CHECK(golden::difference(y, full_pass.slice(1, begin, end)) < 1e-6);
      CHECK(cache.length() == end);
      begin = end;
    }
    CHECK_THROWS_WITH(attention(x.slice(1, 0, 1), cache),
                      Contains("7 + 1 tokens do not fit a capacity of 7"));
    cache.clear();
    CHECK(golden::difference(attention(x, cache), full_pass) < 1e-6);
  }
}

TEST_CASE("attention with a key/value cache draws the same dropout as without", "[nn]") {
  manual_seed(4);
  const NoGrad no_grad;
  const nn::MultiHeadAttention attention(16, {.heads = 4, .causal = true, .dropout = 0.5});
  const Tensor x = randn({2, 6, 16});
  nn::KeyValueCache cache = attention.make_cache(2, 6);
  manual_seed(9);
  const Tensor expected = attention(x);
  manual_seed(9);
  CHECK(golden::difference(attention(x, cache), expected) < 1e-6);
}

TEST_CASE("attention with a cache of uneven sequences gives each what it has alone", "[nn]") {
  manual_seed(4);
  const NoGrad no_grad;
  const std::vector<nn::MultiHeadAttentionOptions> all{
      {.heads = 4, .kv_heads = 2, .key_dim = 6, .value_dim = 2, .rotary = 9, .causal = true},
      {.heads = 4, .kv_heads = 1, .key_dim = 3, .value_dim = 7, .causal = true, .bias = false},
      {.heads = 2, .rotary = 9, .causal = true, .window = 1},
      {.heads = 2,
       .key_dim = 4,
       .value_dim = 5,
       .rotary = 9,
       .causal = true,
       .window = 3,
       .qk_norm = true}};
  const std::vector<int64_t> lengths{2, 7, 5};
  for (const nn::MultiHeadAttentionOptions& o : all) {
    CAPTURE(o.heads, o.key_dim, o.value_dim, o.window);
    const nn::MultiHeadAttention attention(8, o);
    set_gains(attention);
    const Tensor x = randn({3, 9, 8}), whole = attention(x);
    nn::KeyValueCache cache = attention.make_cache(3, 9);
    for (int64_t row = 3; row-- > 0;) cache.remove_row(row);
    const auto rows = [&](const Tensor& from, int64_t step) {  // token lengths[row] + step of each
      std::vector<Tensor> tokens;
      for (int64_t row = 0; row < 3; ++row)
        tokens.push_back(from[row].select(0, lengths[static_cast<size_t>(row)] + step));
      return stack(tokens).unsqueeze(1);
    };
    for (int64_t row = 0; row < 3; ++row) {
      nn::KeyValueCache single = attention.make_cache(1, 9);
      attention(x.slice(0, row, row + 1).slice(1, 0, lengths[static_cast<size_t>(row)]), single);
      cache.add_row(single);
    }
    for (const int64_t step : {0, 1})
      CHECK(difference(attention(rows(x, step), cache), rows(whole, step)) < 1e-5);
    CHECK_THROWS_WITH(attention(x.slice(1, 0, 2), cache), Contains("one token per sequence"));
    CHECK(cache.lengths() == std::vector<int64_t>{4, 9, 7});
  }
}

TEST_CASE("attention with a cache of uneven sequences drops weights too", "[nn]") {
  manual_seed(7);
  const NoGrad no_grad;
  // A token that attends to itself alone. All four outputs are 0 if the weight is dropped, with
  // probability 1/2, or if each output is, with probability 1/16.
  const nn::MultiHeadAttention attention(4, {.heads = 1, .causal = true, .dropout = 0.5});
  attention.proj.weight.copy_(eye(4));
  attention.proj.bias.zero_();
  int zeros = 0;
  for (int i = 0; i < 400; ++i) {
    nn::KeyValueCache cache = attention.make_cache(2, 2), single = attention.make_cache(1, 2);
    cache.remove_row(1);
    attention(ones({1, 1, 4}), single);
    cache.add_row(single);
    REQUIRE(cache.uneven());
    zeros += max(abs(attention(ones({2, 1, 4}), cache)[0])).item() == 0;
  }
  CHECK(std::abs(zeros - 400 * (0.5 + 0.5 / 16)) < 60);
}

TEST_CASE("attention with a window does not read cached tokens from before it", "[nn][fused]") {
  manual_seed(4);
  const NoGrad no_grad;
  const nn::MultiHeadAttention attention(16, {.heads = 4, .causal = true, .window = 3});
  const Tensor x = randn({2, 9, 16});
  for (const int64_t tokens : {1, 4}) {  // attend from token 9 - tokens - 2 on
    nn::KeyValueCache cache = attention.make_cache(2, 9);
    attention(x.slice(1, 0, 9 - tokens), cache);
    cache.keys().slice(2, 0, 9 - tokens - 2).fill_(NAN);
    cache.values().slice(2, 0, 9 - tokens - 2).fill_(NAN);
    const Tensor y = attention(x.slice(1, 9 - tokens), cache);
    CHECK(golden::difference(y, attention(x).slice(1, 9 - tokens)) < 1e-6);
  }
}

TEST_CASE("a key/value cache refuses calls that it cannot serve", "[nn]") {
  const nn::MultiHeadAttention causal(8, {.heads = 2, .causal = true}), both(8, {.heads = 2});
  nn::KeyValueCache cache = causal.make_cache(1, 4);
  const Tensor x = ones({1, 2, 8});
  CHECK_THROWS_WITH(causal(x, cache), Contains("under NoGrad"));
  const NoGrad no_grad;
  CHECK_THROWS_WITH(both(x, cache), Contains("only causal attention"));
  CHECK_THROWS_WITH(causal(x[0], cache), Contains("expected x (B, T, dim), got (2, 8)"));
  CHECK_THROWS_WITH(causal(ones({2, 2, 8}), cache),
                    Contains("KeyValueCache: expected keys of float32 (1, 2, 2, 4)"));
  CHECK_THROWS_WITH(nn::KeyValueCache(1, 2, 0, 4), Contains("KeyValueCache: expected sizes > 0"));
  for (const Shape& shape : {Shape{2, 2, 8}, Shape{2, 8}, Shape{1, 0, 8}})
    CHECK_THROWS_WITH(cache.previous_tokens(0, ones(shape)),
                      Contains("KeyValueCache: expected x (1, T, dim), got "));
  const GradMode on(true);
  CHECK_THROWS_WITH(cache.previous_tokens(0, x), Contains("under NoGrad"));
}

}  // namespace attention_layer_test
