#include "gradus/nn/attention.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/rotary.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::nn {

namespace {
/// Returns the options with defaults filled in. Throws Error if they are invalid.
MultiHeadAttentionOptions resolve(int64_t dim, MultiHeadAttentionOptions o) {
  constexpr const char* op = "MultiHeadAttention";
  constexpr int64_t limit = int64_t{1} << 30;
  check(dim > 0 && dim <= limit && o.heads > 0 && o.heads <= limit, op,
        ": expected dim and heads from 1 to ", limit, ", got ", dim, " and ", o.heads);
  check(dim % o.heads == 0 || (o.key_dim > 0 && o.value_dim > 0), op,
        ": heads must divide dim: dim ", dim, ", heads ", o.heads,
        " (unless key_dim and value_dim are given)");
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  check(o.kv_heads > 0 && o.heads % o.kv_heads == 0, op, ": kv_heads must divide heads: heads ",
        o.heads, ", kv_heads ", o.kv_heads);
  for (int64_t* size : {&o.key_dim, &o.value_dim}) {
    check(*size >= 0 && *size <= limit / o.heads, op, ": expected key_dim and value_dim >= 0, got ",
          o.key_dim, " and ", o.value_dim);
    if (*size == 0) *size = dim / o.heads;
  }
  check(o.rotary >= 0, op, ": expected rotary >= 0, got ", o.rotary);
  check(o.rotary == 0 || o.key_dim % 2 == 0, op, ": rotary positions need an even key_dim, got ",
        o.key_dim);
  if (o.positions.defined())
    check_tensor(op, "positions", o.positions, o.positions.dtype() == float64 ? float64 : float32,
                 {o.rotary, o.key_dim});
  check(o.causal ? o.window >= 0 : o.window == 0, op,
        ": expected window >= 0, and 0 unless causal, got ", o.window);
  return o;
}

/// (B, T, heads D) -> (B, heads, T, D)
Tensor by_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// Returns queries, keys and values per head, from their concatenation (B, T, heads key_dim +
/// kv_heads (key_dim + value_dim)).
std::array<Tensor, 3> split(const MultiHeadAttention& a, const Tensor& all) {
  const auto parts =
      all.split(Shape{a.heads * a.key_dim, a.kv_heads * a.key_dim, a.kv_heads * a.value_dim}, -1);
  return {by_heads(parts[0], a.heads), by_heads(parts[1], a.kv_heads),
          by_heads(parts[2], a.kv_heads)};
}

Linear make_qkv(int64_t dim, const MultiHeadAttentionOptions& o) {
  const int64_t queries = o.heads * o.key_dim, keys = o.kv_heads * o.key_dim,
                values = o.kv_heads * o.value_dim;
  return Linear(dim, queries + keys + values,
                {.bias = o.bias || o.qkv_bias,
                 .rows = {queries, keys, values},
                 .heads = {o.heads, o.kv_heads, o.kv_heads}});
}
}  // namespace

struct MultiHeadAttention::Resolved : MultiHeadAttentionOptions {};

MultiHeadAttention::MultiHeadAttention(int64_t dim, const MultiHeadAttentionOptions& options)
    : MultiHeadAttention(dim, Resolved{resolve(dim, options)}) {}

MultiHeadAttention::MultiHeadAttention(int64_t dim, const Resolved& o)
    : heads(o.heads),
      kv_heads(o.kv_heads),
      key_dim(o.key_dim),
      value_dim(o.value_dim),
      causal(o.causal),
      window(o.window),
      qkv(child("qkv", make_qkv(dim, o))),
      proj(child("proj", Linear(heads * value_dim, dim, {.bias = o.bias}))),
      positions(o.rotary > 0 ? position_table(o) : Tensor()),
      dropout(o.dropout),
      q_norm(o.qk_norm ? std::optional(child("q_norm", RMSNorm(key_dim, o.eps))) : std::nullopt),
      k_norm(o.qk_norm ? std::optional(child("k_norm", RMSNorm(key_dim, o.eps))) : std::nullopt),
      value_shortcut(o.value_shortcut ? param("value_shortcut", {2}, 0.5) : Tensor()) {}

Tensor MultiHeadAttention::position_table(const MultiHeadAttentionOptions& o) {
  if (o.positions.defined()) return buffer("positions", o.positions, /*persistent=*/false);
  return buffer("positions", [length = o.rotary, dim = o.key_dim, f = o.frequencies](Dtype dtype) {
    return rotary_positions(length, dim, f, dtype);
  });
}

/// Returns the concatenation of queries, keys and values: (B, T, dim) -> (B, T, heads key_dim +
/// kv_heads (key_dim + value_dim)).
Tensor MultiHeadAttention::project(const Tensor& x, Tensor* first_values) const {
  const Tensor all = qkv(x);
  const bool mixes = value_shortcut.defined();
  check(!mixes || (first_values && first_values->defined()),
        "MultiHeadAttention: value_shortcut needs the values of a first layer without it");
  if (!q_norm && !first_values) return all;
  std::vector<Tensor> parts =
      all.split(Shape{heads * key_dim, kv_heads * key_dim, kv_heads * value_dim}, -1);
  if (!mixes && first_values) *first_values = parts[2];
  if (!q_norm && !mixes) return all;
  if (q_norm) {
    auto normalised = [&](const RMSNorm& norm, const Tensor& part) {
      const Shape by_head{x.size(0), x.size(1), part.size(2) / key_dim, key_dim};
      return norm(part.reshape(by_head)).reshape(part.shape());
    };
    parts[0] = normalised(*q_norm, parts[0]);
    parts[1] = normalised(*k_norm, parts[1]);
  }
  if (mixes) parts[2] = parts[2] * value_shortcut[0] + *first_values * value_shortcut[1];
  return cat(parts, -1);
}

/// Rotates the queries and keys within x, the concatenation of queries, keys and values, for the
/// positions after those in the cache, or from 0 on. Returns x itself if positions are not rotary.
Tensor MultiHeadAttention::rotated(const Tensor& x, const KeyValueCache* cache) const {
  if (!positions.defined()) return x;
  const int64_t B = x.size(0), T = x.size(1), rotated_heads = heads + kv_heads;
  const int64_t offset = cache ? cache->length() : 0;
  check(T <= positions.size(0) - offset, "MultiHeadAttention: ", offset + T, " tokens exceed the ",
        positions.size(0), " rotary positions");
  // If the lengths differ, x is one token of each of B sequences, at B different positions: rotates
  // them as B tokens of one sequence.
  const bool uneven = cache && cache->uneven();
  const Tensor table = uneven ? index_select(positions, 0, from_data(cache->lengths(), {B}))
                              : positions.slice(0, offset, offset + T);
  auto turn = [&](const Tensor& part, int64_t part_heads) {
    const Shape shape{uneven ? 1 : B, uneven ? B : T, part_heads, key_dim};
    return rotary(part.reshape(shape), table, rotated_heads).reshape(part.shape());
  };
  if (key_dim == value_dim) return turn(x, rotated_heads + kv_heads);
  const std::vector<Tensor> parts =
      x.split(Shape{rotated_heads * key_dim, kv_heads * value_dim}, -1);
  return cat({turn(parts[0], rotated_heads), parts[1]}, -1);
}

/// y (B, heads, T, value_dim) -> (B, T, dim)
Tensor MultiHeadAttention::output(const Tensor& y) const {
  return dropout(proj(y.transpose(1, 2).reshape({y.size(0), y.size(2), heads * value_dim})));
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& mask,
                                      Tensor* first_values) const {
  check_shape("MultiHeadAttention", "x", x, {"B", "T", "dim"});
  const AttentionOptions options{
      .causal = causal, .mask = mask, .dropout = dropout.p, .window = window};
  const Tensor all = rotated(project(x, first_values), nullptr);
  if (key_dim == value_dim) return dropout(proj(self_attention(all, heads, kv_heads, options)));
  const auto [q, k, v] = split(*this, all);
  return output(scaled_dot_product_attention(q, k, v, options));
}

Tensor MultiHeadAttention::operator()(const Tensor& x, KeyValueCache& cache,
                                      Tensor* first_values) const {
  check(causal, "MultiHeadAttention: only causal attention can use a key/value cache");
  check_shape("MultiHeadAttention", "x", x, {"B", "T", "dim"});
  const bool uneven = cache.uneven();
  check(!uneven || x.size(1) == 1, "MultiHeadAttention: expected one token per sequence, as their ",
        "lengths differ, got x ", x.shape());
  const auto [q, k, v] = split(*this, rotated(project(x, first_values), &cache));
  cache.append(k, v);
  AttentionOptions options{.causal = true, .dropout = dropout.p, .window = window};
  if (uneven) options = {.mask = cache.visible_to_last(window), .dropout = dropout.p};
  return output(scaled_dot_product_attention(q, cache.keys(), cache.values(), options));
}

KeyValueCache MultiHeadAttention::make_cache(int64_t batch, int64_t capacity) const {
  return KeyValueCache(batch, kv_heads, capacity, key_dim, proj.dtype(), value_dim);
}

KeysAndValues MultiHeadAttention::keys_and_values(const Tensor& memory) const {
  check_shape("MultiHeadAttention", "memory", memory, {"B", "T", "dim"});
  // The rows of qkv at which keys and values start.
  const int64_t keys = heads * key_dim, values = keys + kv_heads * key_dim;
  const Tensor k = by_heads(qkv.rows(memory, keys, values), kv_heads),
               v = by_heads(qkv.rows(memory, values, values + kv_heads * value_dim), kv_heads);
  return {k_norm ? (*k_norm)(k) : k, v};
}

Tensor MultiHeadAttention::cross(const Tensor& x, const KeysAndValues& memory,
                                 const Tensor& mask) const {
  check(!causal && !positions.defined(),
        "MultiHeadAttention: cross-attention is neither causal nor rotary");
  check(!value_shortcut.defined(), "MultiHeadAttention: cross-attention has no value_shortcut");
  check_shape("MultiHeadAttention", "x", x, {"B", "T", "dim"});
  const Tensor q = by_heads(qkv.rows(x, 0, heads * key_dim), heads);
  return output(scaled_dot_product_attention(q_norm ? (*q_norm)(q) : q, memory.keys, memory.values,
                                             {.mask = mask, .dropout = dropout.p}));
}

Tensor padding_mask(const Tensor& lengths, int64_t batch, int64_t longest) {
  if (!lengths.defined()) return {};
  check_tensor("padding_mask", "lengths", lengths, int64, {batch});
  for (const int64_t n : lengths.to_vector<int64_t>())
    check(n >= 1 && n <= longest, "padding_mask: expected lengths from 1 to ", longest, ", got ",
          n);
  return lt(arange(longest), lengths.unsqueeze(1)).reshape({batch, 1, 1, longest});
}

}  // namespace gradus::nn
