// The limits of layers' sizes and options: what is just valid is accepted, what is just not is
// refused.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "gradus/nn/finetune/lora.h"
#include "gradus/nn/loading.h"
#include "gradus/nn/nn.h"
#include "tests/support/compare.h"

namespace layer_limits_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

/// The error of a layer too large to create: its first weight if its options are valid.
std::string error_without_memory(const std::function<void()>& make) {
  const internal::Loading no_weights(0);
  return error_of(make);
}

constexpr int64_t limit = int64_t{1} << 30;  // of MultiHeadAttention's sizes

}  // namespace

TEST_CASE("multi-head attention: the limits of its sizes", "[nn][attention]") {
  const auto error = [](int64_t dim, const nn::MultiHeadAttentionOptions& options) {
    return error_without_memory([&] { nn::MultiHeadAttention(dim, options); });
  };
  const char* const dim_or_heads =
      "MultiHeadAttention: expected dim and heads from 1 to 1073741824";
  const char* const head_sizes = "MultiHeadAttention: expected key_dim and value_dim >= 0";
  const char* const valid = "Linear: ";  // its first weight is too large
  CHECK_THAT(error(8, {.heads = 0}), StartsWith(dim_or_heads));
  CHECK_THAT(error(8, {.heads = -1}), StartsWith(dim_or_heads));
  CHECK_THAT(error(limit, {}), StartsWith(valid));
  CHECK_THAT(error(limit + 1, {}), StartsWith(dim_or_heads));
  CHECK_THAT(error(8, {.heads = limit, .key_dim = 1, .value_dim = 1}), StartsWith(valid));
  CHECK_THAT(error(8, {.heads = limit + 1, .key_dim = 1, .value_dim = 1}),
             StartsWith(dim_or_heads));
  CHECK_THAT(error(8, {.heads = 2, .key_dim = limit / 2}), StartsWith(valid));
  CHECK_THAT(error(8, {.heads = 2, .key_dim = limit / 2 + 1}), StartsWith(head_sizes));
  CHECK_THAT(error(8, {.heads = 2, .value_dim = limit / 2}), StartsWith(valid));
  CHECK_THAT(error(8, {.heads = 2, .value_dim = limit / 2 + 1}), StartsWith(head_sizes));
  CHECK_THAT(error(8, {.heads = 2, .value_dim = -1}), StartsWith(head_sizes));
  // Without a size of keys or of values, heads must divide dim.
  for (const auto& [key_dim, value_dim] : {std::pair{0, 2}, {2, 0}, {0, 0}})
    CHECK_THAT(error(10, {.heads = 3, .key_dim = key_dim, .value_dim = value_dim}),
               Contains("heads must divide dim: dim 10, heads 3"));
  CHECK_THAT(error(8, {.heads = 4, .kv_heads = -2}), Contains("kv_heads must divide heads"));
}

TEST_CASE("multi-head attention: cached tokens count among the rotary positions",
          "[nn][attention]") {
  manual_seed(1);
  const NoGrad no_grad;
  const nn::MultiHeadAttention attention(8, {.heads = 2, .rotary = 4, .causal = true});
  const Tensor x = randn({1, 4, 8});
  nn::KeyValueCache cache = attention.make_cache(1, 9);
  attention(x.slice(1, 0, 3), cache);
  CHECK_THROWS_WITH(attention(x.slice(1, 0, 2), cache),
                    "MultiHeadAttention: 5 tokens exceed the 4 rotary positions");
  CHECK(cache.length() == 3);
  CHECK(difference(attention(x.slice(1, 3), cache), attention(x).slice(1, 3)) < 1e-5);
}

TEST_CASE("padding_mask: lengths from 1 to the longest", "[nn][attention]") {
  const auto mask = [](const std::vector<int64_t>& lengths) {
    return nn::padding_mask(from_data(lengths), std::ssize(lengths), 3);
  };
  CHECK(mask({1, 3}).shape() == Shape{2, 1, 1, 3});
  CHECK(difference(mask({1, 3}).to(float32), {1, 0, 0, 1, 1, 1}) == 0);
  CHECK_THROWS_WITH(mask({1, 0}), "padding_mask: expected lengths from 1 to 3, got 0");
  CHECK_THROWS_WITH(mask({4, 1}), "padding_mask: expected lengths from 1 to 3, got 4");
  CHECK_FALSE(nn::padding_mask({}, 2, 3).defined());
}

TEST_CASE("attention with one head: both sizes must be above 0", "[nn][attention]") {
  for (const auto& [query_dim, key_dim] : {std::pair{0, 4}, {4, 0}, {-1, 4}, {4, -1}})
    CHECK_THROWS_WITH(nn::Attention(nn::Score::dot, query_dim, key_dim),
                      Contains("Attention: expected sizes > 0"));
}

TEST_CASE("a decoder block's shared positions are those of its self-attention alone", "[nn]") {
  const Tensor table = nn::rotary_positions(6, 4);
  const nn::DecoderBlock block(8, {.heads = 2, .rotary = 6, .positions = table});
  CHECK(&block.attn.positions.impl() == &table.impl());
  CHECK_FALSE(block.cross.positions.defined());
  CHECK(block.named_buffers().size() == 1);
  CHECK_THROWS_WITH(nn::Block(8, {.heads = 2}).first(1, ones({3, 8})),
                    "Block::first: expected x (B, T, dim), got (3, 8)");
}

TEST_CASE("linear and feed-forward layers: the limits of their sizes", "[nn]") {
  for (const Tensor& weight : {ones({3}), ones({2, 3, 1})})
    CHECK_THROWS_WITH(nn::Linear(weight), "Linear: expected a weight of shape (out, in)");
  CHECK_THROWS_WITH(nn::Linear(Tensor()), "Linear: expected a weight of shape (out, in)");

  const auto error = [](int64_t dim, int64_t hidden) {
    return error_without_memory([&] { nn::MLP(dim, {.hidden = hidden}); });
  };
  CHECK_THAT(error(INT64_MAX / 4 + 1, 1), StartsWith("MLP: expected sizes > 0"));
  CHECK_THAT(error(INT64_MAX / 4, 1), StartsWith("Linear: "));
  CHECK_THAT(error(8, INT64_MAX / 2 + 1), StartsWith("MLP: expected sizes > 0"));
  CHECK_THAT(error(8, INT64_MAX / 2), StartsWith("Linear: "));
  CHECK_THAT(error(8, -1), StartsWith("MLP: expected sizes > 0, got dim 8, hidden -1"));
  CHECK_THAT(error(0, 8), StartsWith("MLP: expected sizes > 0, got dim 0, hidden 8"));
}

TEST_CASE("Linear::rows: only rows that there are, with and without an update", "[nn]") {
  nn::Linear layer(3, 4);
  const Tensor x = ones({2, 3});
  for (const bool updated : {false, true}) {
    if (updated) nn::add_lora(layer, {.rank = 1});
    for (const auto& [begin, end] : {std::pair{-2, 4}, {0, 999}, {2, 2}, {3, 1}})
      CHECK_THROWS_WITH(layer.rows(x, begin, end),
                        StartsWith("Linear::rows: expected 0 <= begin < end <= 4, got "));
    CHECK(layer.rows(x, 3, 4).shape() == Shape{2, 1});
    CHECK(difference(layer.rows(x, 0, 4), layer(x)) == 0);
  }
}

TEST_CASE("recurrent layers: the limits of their sizes", "[nn][recurrent]") {
  CHECK_THROWS_WITH(nn::RNN(0, 3), "RNN: expected sizes > 0, got input 0, hidden 3");
  CHECK_THROWS_WITH(nn::LSTMCell(3, 0), "LSTM: expected sizes > 0, got input 3, hidden 0");
  const auto error = [](int64_t hidden) {
    return error_without_memory([&] { nn::GRU(1, hidden); });
  };
  CHECK_THAT(error(INT64_MAX / 4 + 1), StartsWith("GRU: expected sizes > 0, got input 1, hidden"));
  CHECK_THAT(error(INT64_MAX / 4), !Contains("got input 1") && !Equals(""));
}

TEST_CASE("norms: eps may be 0 but not below", "[nn]") {
  const Tensor x = tensor({{3, 4, 5}}), pair = tensor({{3, 5}});
  const double third = std::sqrt(1.5);  // the variance of 3, 4, 5 is 2/3
  CHECK(difference(nn::LayerNorm(3, {.eps = 0})(x), {-third, 0, third}) < 1e-6);
  CHECK(difference(nn::RMSNorm(1, 0)(tensor({{-7}})), {-1}) < 1e-6);
  CHECK(difference(nn::GroupNorm(1, 2, 0)(pair), {-1, 1}) < 1e-6);
  CHECK(difference(nn::BatchNorm(1, {.eps = 0})(tensor({{3}, {5}})), {-1, 1}) < 1e-6);
  CHECK_THROWS_WITH(nn::LayerNorm(3, {.eps = -1}), "LayerNorm: expected eps >= 0, got -1");
  CHECK_THROWS_WITH(nn::GroupNorm(1, 2, -1), Contains("GroupNorm: ") && Contains("eps -1"));
  CHECK_THROWS_WITH(nn::GroupNorm(0, 2), Contains("GroupNorm: ") && Contains("groups 0"));
  CHECK_THROWS_WITH(nn::BatchNorm(1, {.eps = -1}), Contains("BatchNorm: expected eps >= 0"));
}

TEST_CASE("convolution layers: groups must divide inputs and outputs", "[nn]") {
  for (const auto& [in, out, groups] :
       {std::tuple{4, 3, 2}, {3, 4, 2}, {4, 4, 0}, {4, 4, -2}, {0, 4, 1}}) {
    CAPTURE(in, out, groups);
    const auto refused = Contains(": groups must divide the channels: in ");
    CHECK_THROWS_WITH(nn::Conv1d(in, out, 3, {.groups = groups}), refused);
    CHECK_THROWS_WITH(nn::Conv2d(in, out, 3, {.groups = groups}), refused);
    CHECK_THROWS_WITH(nn::ConvTranspose2d(in, out, 3, {.groups = groups}), refused);
  }
}

TEST_CASE("batch norm: a momentum of 0 keeps the first statistics, one of 1 the last", "[nn]") {
  const Tensor x = tensor({{3}, {5}});  // mean 4, unbiased variance 2
  const nn::BatchNorm first(1, {.momentum = 0}), last(1, {.momentum = 1});
  first(x), last(x);
  CHECK(first.running_mean.item() == 0);
  CHECK(first.running_var.item() == 1);
  CHECK(last.running_mean.item() == 4);
  CHECK(last.running_var.item() == 2);
  for (const double momentum : {-0.1, 1.1})
    CHECK_THROWS_WITH(nn::BatchNorm(1, {.momentum = momentum}),
                      Contains("BatchNorm: expected eps >= 0 and a momentum from 0 to 1"));
}

TEST_CASE("dropout: a probability of 1 drops everything, none below 0 is accepted", "[nn]") {
  CHECK(difference(nn::Dropout(1)(ones({5})), zeros({5})) == 0);
  CHECK_THROWS_WITH(nn::Dropout(-0.1), "Dropout: expected a probability from 0 to 1, got -0.1");
}

TEST_CASE("position embeddings: any part of the table, no more", "[nn]") {
  const nn::LearnedPositions learned(4, 6);
  const nn::SinusoidalPositions fixed(4, 6);
  CHECK(learned(0, 4).shape() == Shape{0, 6});
  CHECK(fixed(0).shape() == Shape{0, 6});
  CHECK(difference(learned(4), learned.weight) == 0);
  for (const auto& [length, offset] : {std::pair{-1, 2}, {1, -1}, {5, 0}, {1, 4}}) {
    CHECK_THROWS_WITH(learned(length, offset), Contains("do not fit a context of 4"));
    CHECK_THROWS_WITH(fixed(length, offset), Contains("do not fit a context of 4"));
  }
  CHECK_NOTHROW(nn::rotary_positions(2, 4, {.low_turns = 0}));
  CHECK_THROWS_WITH(nn::rotary_positions(2, 4, {.low_turns = -0.1}),
                    Contains("rotary_positions: expected theta > 0"));
}

}  // namespace layer_limits_test
