// Rows of attention.

#include <cmath>
#include <limits>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The options of a row. Masks and biases are created for its shapes.
struct Setting {
  std::string variant;
  bool causal = false, bool_mask = false, bias = false;
  double dropout = 0;
  std::optional<double> scale = {};
  int64_t window = 0;
};

/// A mask for weights (..., Tq, Tk) that broadcasts over batch and heads. Query 0 attends to no
/// key.
Tensor some_mask(int64_t queries, int64_t keys) {
  const Tensor i = arange(queries).unsqueeze(1), j = arange(keys);
  return logical_and(gt(i, 0), ne((i + j).to(float64) - 3.0, 0));
}

Tensor some_bias(int64_t queries, int64_t keys, Dtype dtype) {
  const Tensor i = arange(queries).unsqueeze(1).to(dtype), j = arange(keys).to(dtype);
  return where(eq(i - j, 1), full({}, -infinity, dtype), sin(i * 3.0 + j));
}

AttentionOptions options_of(const Setting& s, const Tensor& q, int64_t keys) {
  AttentionOptions options{
      .causal = s.causal, .dropout = s.dropout, .scale = s.scale, .window = s.window};
  if (s.bool_mask) options.mask = some_mask(q.size(-2), keys);
  if (s.bias) options.mask = some_bias(q.size(-2), keys, q.dtype());
  return options;
}

const RandomKey dropout_key{17, 4};

Tensor attention(const Setting& s, const Tensors& x) {
  default_generator().set_state(dropout_key);
  return scaled_dot_product_attention(x[0], x[1], x[2], options_of(s, x[0], x[1].size(-2)));
}

/// Attention by its formula, written out.
Tensor attention_by_hand(const Setting& s, const Tensors& x) {
  const Tensor &q = x[0], &k = x[1], &v = x[2];
  const int64_t group = q.size(-3) / k.size(-3), queries = q.size(-2), keys = k.size(-2);
  auto for_each_query_head = [&](const Tensor& t) {
    Tensors heads;
    for (int64_t h = 0; h < q.size(-3); ++h) heads.push_back(t.select(-3, h / group));
    return stack(heads, t.rank() - 3);
  };
  const double scale = s.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor scores = matmul(q, for_each_query_head(k).transpose(-1, -2)) * scale;
  Tensor seen = ones({queries, keys}, boolean);
  const Tensor steps_back =
      arange(queries).unsqueeze(1) + static_cast<double>(keys - queries) - arange(keys);
  if (s.causal) seen = ge(steps_back, 0);
  if (s.window > 0) seen = logical_and(seen, lt(steps_back, static_cast<double>(s.window)));
  if (s.bool_mask) seen = logical_and(seen, some_mask(queries, keys));
  if (s.bias) {
    const Tensor bias = some_bias(queries, keys, q.dtype());
    seen = logical_and(seen, gt(bias, -infinity));
    scores = scores + masked_fill(bias, logical_not(seen), 0);
  }
  const Tensor e = exp(scores) * seen.to(q.dtype()), total = sum(e, -1, keepdim);
  Tensor weights = e / masked_fill(total, eq(total, 0), 1);
  if (s.dropout > 0) weights = dropout(weights, s.dropout, dropout_key);
  return matmul(weights, for_each_query_head(v));
}

Sample heads(const Shape& q, int64_t kv_heads, int64_t keys, int64_t value_dim) {
  Shape k = q, v = q;
  k[q.size() - 3] = v[q.size() - 3] = kv_heads;
  k[q.size() - 2] = v[q.size() - 2] = keys;
  v.back() = value_dim;
  return {normal(q), normal(k), normal(v)};
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      {.variant = ""},
      {.variant = "causal", .causal = true},
      {.variant = "mask", .bool_mask = true},
      {.variant = "bias, scale", .bias = true, .scale = 0.3},
      {.variant = "causal, mask", .causal = true, .bool_mask = true},
      {.variant = "causal, dropout", .causal = true, .dropout = 0.3},
      {.variant = "mask, dropout", .bool_mask = true, .dropout = 0.3},
      {.variant = "window 1", .causal = true, .window = 1},
      {.variant = "window 2, mask", .causal = true, .bool_mask = true, .window = 2},
      {.variant = "window 2, dropout", .causal = true, .dropout = 0.3, .window = 2},
      {.variant = "window 37, bias", .causal = true, .bias = true, .window = 37},
      {.variant = "window 63", .causal = true, .window = 63},
      {.variant = "window 64", .causal = true, .window = 64}};
  return all;
}

std::vector<BadCall> refused() {
  auto call = [](const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& o = {}) {
    return [=] { scaled_dot_product_attention(ones(q), ones(k), ones(v), o); };
  };
  const Shape s{1, 2, 3, 4};
  const std::string op = "scaled_dot_product_attention: ";
  return {{call({3, 4}, {3, 4}, {3, 4}), op + "expected q (..., H, Tq, D)"},
          {call(s, {2, 3, 4}, s), op + "expected q (..., H, Tq, D)"},
          {call(s, s, {2, 3, 4}), op + "expected q (..., H, Tq, D)"},
          {call(s, {2, 2, 3, 4}, {2, 2, 3, 4}), op + "expected the same leading axes"},
          {call(s, {1, 2, 3, 5}, s), op + "expected q and k of one head size"},
          {call(s, s, {1, 2, 4, 4}), op + "expected as many keys as values"},
          {call(s, {1, 3, 3, 4}, {1, 3, 3, 4}), op + "expected as many key as value heads"},
          {call({1, 0, 3, 4}, s, s), op + "expected as many key as value heads, at least one"},
          {call(s, s, s, {.mask = ones({3, 4})}),
           op + "expected a mask that broadcasts to (1, 2, 3, 3), got (3, 4)"},
          {call(s, s, s, {.mask = ones({3, 3}, int64)}),
           op + "expected a mask of bool or float32, got int64"},
          {call(s, s, s, {.dropout = 2}), op + "expected dropout from 0 to 1, got 2"},
          {call(s, s, s, {.window = 2}), op + "expected window >= 0, and 0 unless causal, got 2"},
          {call(s, s, s, {.causal = true, .window = -1}),
           op + "expected window >= 0, and 0 unless causal, got -1"},
          {[s] { scaled_dot_product_attention(ones(s), ones(s, float64), ones(s)); },
           op + "expected one dtype"},
          {[s] { scaled_dot_product_attention(ones(s, int64), ones(s, int64), ones(s, int64)); },
           op + "expected float32 or float64, got int64"}};
}

OpRow projected_row(const Setting& s, int64_t q_heads, int64_t kv_heads) {
  const std::string grouped = kv_heads < q_heads ? ", grouped" : "";
  return {.name = "self_attention",
          .variant = s.variant + grouped,
          .f = of_one([=](const Tensor& qkv) {
            default_generator().set_state(dropout_key);
            return self_attention(qkv, q_heads, kv_heads, options_of(s, qkv, qkv.size(1)));
          }),
          .samples = {{normal({1, 3, (q_heads + 2 * kv_heads) * 2})},
                      {normal({2, 1, q_heads + 2 * kv_heads})},
                      {normal({0, 2, q_heads + 2 * kv_heads})},
                      {normal({1, 0, q_heads + 2 * kv_heads})}},
          .large = {{normal({2, 133, (q_heads + 2 * kv_heads) * 9})}},
          .composed = of_one([=](const Tensor& qkv) {
            const int64_t all = q_heads + 2 * kv_heads, dim = qkv.size(2) / all;
            auto part = [&](int64_t from, int64_t n) {
              return qkv.slice(2, from * dim, (from + n) * dim)
                  .reshape({qkv.size(0), qkv.size(1), n, dim})
                  .transpose(1, 2);
            };
            const Tensor y = attention_by_hand(
                s, {part(0, q_heads), part(q_heads, kv_heads), part(q_heads + kv_heads, kv_heads)});
            return y.transpose(1, 2).reshape({qkv.size(0), qkv.size(1), q_heads * dim});
          })};
}

std::vector<OpRow> gated_rows() {
  std::vector<OpRow> rows;
  for (const Activation activation : activations)
    rows.push_back({.name = "gated",
                    .variant = name_of(activation),
                    .f = of_one([=](const Tensor& x) { return gated(x, activation); }),
                    .samples = {{away_from({2, 4}, {0})},
                                {away_from({2, 1, 6}, {0})},
                                {away_from({2}, {0})},
                                {normal({0, 2})},
                                {normal({2, 0})}},
                    .large = {{away_from({131, 514}, {0})}},
                    .composed = of_one([=](const Tensor& x) {
                      const int64_t n = x.size(-1) / 2;
                      return activate(x.slice(-1, 0, n), activation) * x.slice(-1, n);
                    })});
  rows[0].bad = {{[] {
                    gated(ones({2, 3}), Activation::silu);
                  },
                  "gated: expected a last axis of even size, got (2, 3)"},
                 {[] { gated(ones({}), Activation::silu); }, "gated: expected x (..., 2n), got ()"},
                 {[] {
                    gated(ones({2, 4}, int64), Activation::silu);
                  },
                  "gated"},
                 {[] {
                    gated(ones({2, 4}), static_cast<Activation>(99));
                  },
                  "activation: unknown activation 99"}};
  return rows;
}

/// A table of sines and cosines of some angles.
Tensor some_positions(int64_t time, int64_t dim, Dtype dtype) {
  const Tensor angle = arange(time).to(float64).unsqueeze(1) * 0.7 + arange(dim / 2).to(float64);
  return stack({sin(angle), cos(angle)}, -1).reshape({time, dim}).to(dtype);
}

OpRow rotary_row() {
  auto table = [](const Tensor& x) { return some_positions(x.size(-3), x.size(-1), x.dtype()); };
  return {.name = "rotary",
          .f = of_one([=](const Tensor& x) { return rotary(x, table(x), (x.size(-2) + 1) / 2); }),
          .samples = {{normal({1, 2, 3, 4})},
                      {normal({2, 2, 2})},
                      {normal({3, 1, 2})},
                      {normal({0, 2, 2, 2})},
                      {normal({2, 0, 3, 2})},
                      {normal({2, 3, 1, 0})}},
          .large = {{normal({3, 133, 7, 18})}},
          .composed = of_one([=](const Tensor& x) {  // pairs as complex numbers times e^(i angle)
            const int64_t turning = (x.size(-2) + 1) / 2;
            Tensor y = x.clone();
            const Tensor sine = table(x).slice(-1, 0, INT64_MAX, 2).unsqueeze(1),
                         cosine = table(x).slice(-1, 1, INT64_MAX, 2).unsqueeze(1);
            const Tensor z = x.slice(-2, 0, turning);
            const Tensor re = z.slice(-1, 0, INT64_MAX, 2), im = z.slice(-1, 1, INT64_MAX, 2);
            const Tensor turned =
                stack({re * cosine - im * sine, re * sine + im * cosine}, -1).reshape(z.shape());
            return cat({turned, x.slice(-2, turning)}, -2);
          }),
          .bad = {{[] {
                     rotary(ones({2, 3, 3}), ones({2, 3}), 1);
                   },
                   "rotary: expected an even D, got x (2, 3, 3)"},
                  {[] {
                     rotary(ones({3, 4}), ones({3, 4}), 1);
                   },
                   "rotary: expected x (..., T, heads, D), got (3, 4)"},
                  {[] {
                     rotary(ones({2, 3, 4}), ones({3, 4}), 1);
                   },
                   "rotary: expected positions of float32 (2, 4), got float32 (3, 4)"},
                  {[] {
                     rotary(ones({2, 3, 4}), ones({2, 4}, float64), 1);
                   },
                   "rotary: expected positions of float32"},
                  {[] {
                     rotary(ones({2, 3, 4}), {}, 1);
                   },
                   "rotary: expected positions"},
                  {[] {
                     rotary(ones({2, 3, 4}), ones({2, 4}), 4);
                   },
                   "rotary: expected 0 to 3 heads to rotate, got 4"},
                  {[] {
                     rotary(ones({2, 3, 4}, int64), ones({2, 4}), 3);
                   },
                   "rotary: expected float32 or float64, got int64"}}};
}

OpRow weights_row() {
  return {.name = "attention_weights",
          .f = of_two([](const Tensor& q, const Tensor& k) {
            return attention_weights(q, k, {.causal = true, .scale = 0.7, .window = 2});
          }),
          .samples = {{normal({1, 2, 2, 3}), normal({1, 1, 3, 3})},
                      {normal({1, 1, 1}), normal({1, 1, 1})},
                      {normal({0, 2, 1, 1}), normal({0, 2, 1, 1})}},
          .composed = of_two([](const Tensor& q, const Tensor& k) {
            const Setting s{.variant = "", .causal = true, .scale = 0.7, .window = 2};
            const int64_t keys = k.size(-2);  // with v = identity the output is the weights
            Shape shape = k.shape();
            shape.back() = keys;
            return attention_by_hand(s, {q, k, eye(keys, q.dtype()).expand(shape)});
          }),
          .bad = {{[] {
                     attention_weights(ones({1, 2, 3, 4}), ones({1, 3, 3, 4}));
                   },
                   "attention_weights: expected as many key as value heads"}}};
}

}  // namespace

std::vector<OpRow> attention_rows() {
  std::vector<OpRow> rows{rotary_row(), weights_row()};
  for (OpRow& row : gated_rows()) rows.push_back(std::move(row));
  const size_t first = rows.size();
  for (const Setting& s : settings()) {
    rows.push_back(
        {.name = "scaled_dot_product_attention",
         .variant = s.variant,
         .f = [s](const Tensors& x) { return Tensors{attention(s, x)}; },
         .samples = {heads({1, 2, 2, 2}, 2, 2, 2), heads({2, 2, 3}, 1, 4, 1),
                     heads({1, 3, 1}, 1, 2, 2), heads({1, 1, 1, 1}, 1, 1, 1),
                     heads({0, 2, 2, 1}, 1, 2, 1), heads({1, 0, 2}, 1, 2, 1),
                     heads({1, 2, 2}, 1, 0, 1)},
         .large = {heads({2, 4, 133, 16}, 2, 133, 16), heads({2, 67, 9}, 2, 201, 5)},
         .composed = [s](const Tensors& x) { return Tensors{attention_by_hand(s, x)}; }});
    rows.push_back(projected_row(s, 2, 2));
  }
  rows[first].bad = refused();
  rows.push_back(projected_row(settings()[1], 4, 2));
  rows.push_back(projected_row(settings()[8], 4, 2));
  rows.push_back(
      {.name = "scaled_dot_product_attention",
       .variant = "a mask that wants a gradient",
       .f =
           [](const Tensors& x) {
             return Tensors{scaled_dot_product_attention(x[0], x[0], x[0], {.mask = x[1]})};
           },
       .samples = {{normal({2, 2, 2}), normal({2, 2})},
                   {normal({1, 3, 1}), normal({1, 3})},
                   {normal({1, 0, 2}), normal({})}},
       .composed =
           [](const Tensors& x) {
             const double scale = 1 / std::sqrt(static_cast<double>(x[0].size(-1)));
             return Tensors{matmul(softmax(matmul(x[0], x[0].mT()) * scale + x[1]), x[0])};
           }});
  rows.push_back(
      {.name = "self_attention",
       .variant = "a mask that wants a gradient",
       .f = [](const Tensors& x) { return Tensors{self_attention(x[0], 1, 1, {.mask = x[1]})}; },
       .samples = {{normal({2, 2, 6}), normal({2, 2})},
                   {normal({1, 3, 3}), normal({1, 3})},
                   {normal({1, 0, 6}), normal({})}},
       .composed =
           [](const Tensors& x) {
             const int64_t dim = x[0].size(2) / 3;
             const Tensor q = x[0].slice(2, 0, dim), k = x[0].slice(2, dim, 2 * dim);
             const double scale = 1 / std::sqrt(static_cast<double>(dim));
             const Tensor weights = softmax(matmul(q, k.mT()) * scale + x[1]);
             return Tensors{matmul(weights, x[0].slice(2, 2 * dim))};
           }});
  rows[first + 1].bad = {
      {[] {
         self_attention(ones({2, 3, 8}), 3, 2);
       },
       "self_attention: expected heads to be a multiple of kv_heads below 2^31, got 3 and 2"},
      {[] {
         self_attention(ones({2, 3, 8}), 0, 1);
       },
       "self_attention: expected heads to be a multiple of kv_heads"},
      {[] {
         self_attention(ones({2, 3, 8}), 2, 0);
       },
       "self_attention: expected heads to be a multiple of kv_heads below 2^31, got 2 and 0"},
      {[] {
         self_attention(ones({2, 3, 8}), int64_t{1} << 62, int64_t{1} << 62);
       },
       "below 2^31, got 4611686018427387904 and 4611686018427387904"},
      {[] {
         self_attention(ones({2, 3, 8}), 1, 1);
       },
       "self_attention: expected qkv (B, T, (heads + 2 kv_heads) D)"},
      {[] {
         self_attention(ones({3, 8}), 2, 1);
       },
       "self_attention: expected qkv (B, T"},
      {[] {
         self_attention(ones({1, 3, 8}), 2, 1, {.mask = ones({2, 3})});
       },
       "self_attention: expected a mask that broadcasts to (1, 2, 3, 3), got (2, 3)"}};
  return rows;
}

}  // namespace gradus::testing
