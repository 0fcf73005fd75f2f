#pragma once
// Self-attention and the transformer block.

#include "gradus/nn/layers.h"

namespace gradus::nn {

/// The keys and values of the tokens read so far, in memory set aside once. It can be moved, not
/// copied: a copy would share the memory and not the length.
class KeyValueCache {
 public:
  KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;
  /// For `batch` sequences of up to `capacity` tokens.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                Dtype dtype = float32);
  /// Writes k and v (B, Hk, T, D) behind what is there. Throws Error if they do not fit, or while
  /// gradients are recorded.
  void append(const Tensor& k, const Tensor& v);
  /// What is there: (B, Hk, length, D), views.
  Tensor keys() const { return k_.slice(2, 0, length_); }
  Tensor values() const { return v_.slice(2, 0, length_); }
  int64_t length() const { return length_; }
  int64_t capacity() const { return k_.size(2); }
  /// Sequence i goes on from where sequence rows[i] stands: rows (batch), int64.
  void reorder(const Tensor& rows);
  /// Forgets all.
  void clear() { length_ = 0; }

 private:
  Tensor k_, v_;  // (B, Hk, capacity, D)
  int64_t length_ = 0;
};

struct SelfAttentionOptions {
  int64_t heads = 1;
  int64_t kv_heads = 0;  ///< heads of keys and values, a divisor of heads; 0: as many
  bool causal = false;   ///< a token sees itself and those before it only
  bool bias = true;
  double dropout = 0;  ///< of the attention weights and of the output
};
/// Multi-head self-attention: (B, T, dim) -> (B, T, dim).
struct SelfAttention : Module {
  int64_t heads, kv_heads;
  bool causal;
  Linear qkv, proj;  ///< dim -> (heads + 2 kv_heads) dim/heads: q, k, v side by side; dim -> dim
  Dropout dropout;
  SelfAttention(int64_t dim, const SelfAttentionOptions& options);

  /// `mask` broadcasts to (B, heads, T, T): bool, true where a token may be seen, or added to the
  /// scores.
  Tensor operator()(const Tensor& x, const Tensor& mask = {}) const;
  /// x holds the next T tokens, which see the cache's too and are appended to it. Causal only.
  Tensor operator()(const Tensor& x, KeyValueCache& cache) const;
  KeyValueCache make_cache(int64_t batch, int64_t capacity) const;
};

struct BlockOptions {
  int64_t heads = 1;
  int64_t kv_heads = 0;  ///< 0: as many as heads
  int64_t hidden = 0;    ///< of the MLP; 0: 4 dim
  Activation activation = Activation::gelu;
  bool causal = false;
  bool bias = true;    ///< in every linear layer and norm
  double dropout = 0;  ///< of attention weights and of what is added to x
  double eps = 1e-5;   ///< of the layer norms
};
/// The pre-norm transformer block (Radford et al. 2019, "Language Models are Unsupervised Multitask
/// Learners", section 2.3): (B, T, dim) -> (B, T, dim).
struct Block : Module {
  LayerNorm ln1;
  SelfAttention attn;
  LayerNorm ln2;
  MLP mlp;
  Block(int64_t dim, const BlockOptions& options);

  /// mask: as SelfAttention's.
  Tensor operator()(const Tensor& x, const Tensor& mask = {}) const {
    const Tensor h = x + attn(ln1(x), mask);
    return h + mlp(ln2(h));
  }
  Tensor operator()(const Tensor& x, KeyValueCache& cache) const {
    const Tensor h = x + attn(ln1(x), cache);
    return h + mlp(ln2(h));
  }
};

}  // namespace gradus::nn
