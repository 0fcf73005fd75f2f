#include "gradus/nn/transformer.h"

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/ops/indexing.h"

namespace gradus::nn {

KeyValueCache::KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                             Dtype dtype) {
  check(batch > 0 && kv_heads > 0 && capacity > 0 && head_dim > 0,
        "KeyValueCache: expected sizes > 0, got ", Shape{batch, kv_heads, capacity, head_dim});
  k_ = empty({batch, kv_heads, capacity, head_dim}, dtype);
  v_ = empty_like(k_);
}

void KeyValueCache::append(const Tensor& k, const Tensor& v) {
  const Shape expected{k_.size(0), k_.size(1), k.rank() == 4 ? k.size(2) : 0, k_.size(3)};
  check(k.shape() == expected && v.shape() == expected, "KeyValueCache: expected keys and values ",
        expected, ", got ", k.shape(), " and ", v.shape());
  check(!grad_enabled(),
        "KeyValueCache: gradients do not flow through a cache; use it under NoGrad");
  check(k.size(2) <= capacity() - length_, "KeyValueCache: ", length_, " + ", k.size(2),
        " tokens do not fit a capacity of ", capacity());
  const int64_t end = length_ + k.size(2);
  k_.slice(2, length_, end).copy_(k);
  v_.slice(2, length_, end).copy_(v);
  length_ = end;
}

void KeyValueCache::reorder(const Tensor& rows) {
  check(rows.shape() == Shape{k_.size(0)}, "KeyValueCache: expected ", k_.size(0),
        " rows to reorder by, got ", rows.shape());
  for (const Tensor& x : {keys(), values()}) x.copy_(index_select(x, 0, rows));
}

namespace {
// Checked before the layers are made whose sizes follow from it.
int64_t qkv_width(int64_t dim, int64_t heads, int64_t kv_heads) {
  check(dim > 0 && dim <= INT64_MAX / 3 && heads > 0 && dim % heads == 0,
        "SelfAttention: heads must divide dim: dim ", dim, ", heads ", heads);
  check(kv_heads > 0 && heads % kv_heads == 0, "SelfAttention: kv_heads must divide heads: heads ",
        heads, ", kv_heads ", kv_heads);
  return (heads + 2 * kv_heads) * (dim / heads);
}
}  // namespace

SelfAttention::SelfAttention(int64_t dim, const SelfAttentionOptions& options)
    : heads(options.heads),
      kv_heads(options.kv_heads == 0 ? options.heads : options.kv_heads),
      causal(options.causal),
      qkv(child("qkv", Linear(dim, qkv_width(dim, heads, kv_heads), {.bias = options.bias}))),
      proj(child("proj", Linear(dim, dim, {.bias = options.bias}))),
      dropout(options.dropout) {}

Tensor SelfAttention::operator()(const Tensor& x, const Tensor& mask) const {
  const AttentionOptions options{.causal = causal, .mask = mask, .dropout = dropout.p};
  return dropout(proj(self_attention(qkv(x), heads, kv_heads, options)));
}

Tensor SelfAttention::operator()(const Tensor& x, KeyValueCache& cache) const {
  check(causal, "SelfAttention: only causal attention can use a key/value cache");
  check(x.rank() == 3, "SelfAttention: expected (B, T, dim), got ", x.shape());
  const int64_t B = x.size(0), T = x.size(1), D = proj.weight.size(1) / heads;
  const Tensor all = qkv(x).view({B, T, heads + 2 * kv_heads, D}).transpose(1, 2);
  const Tensor q = all.slice(1, 0, heads);
  cache.append(all.slice(1, heads, heads + kv_heads), all.slice(1, heads + kv_heads));
  const AttentionOptions options{.causal = true, .dropout = dropout.p};
  const Tensor y = scaled_dot_product_attention(q, cache.keys(), cache.values(), options);
  return dropout(proj(y.transpose(1, 2).reshape({B, T, heads * D})));
}

KeyValueCache SelfAttention::make_cache(int64_t batch, int64_t capacity) const {
  const int64_t head_dim = proj.weight.size(1) / heads;
  return KeyValueCache(batch, kv_heads, capacity, head_dim, proj.weight.dtype());
}

Block::Block(int64_t dim, const BlockOptions& options)
    : ln1(child("ln1", LayerNorm(dim, {.eps = options.eps, .bias = options.bias}))),
      attn(child("attn", SelfAttention(dim, {.heads = options.heads,
                                             .kv_heads = options.kv_heads,
                                             .causal = options.causal,
                                             .bias = options.bias,
                                             .dropout = options.dropout}))),
      ln2(child("ln2", LayerNorm(dim, {.eps = options.eps, .bias = options.bias}))),
      mlp(child("mlp", MLP(dim, {.hidden = options.hidden,
                                 .activation = options.activation,
                                 .bias = options.bias,
                                 .dropout = options.dropout}))) {}

}  // namespace gradus::nn
