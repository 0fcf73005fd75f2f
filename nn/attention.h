#pragma once
// Multi-head attention. For single-head attention with a choice of score function, see recurrent.h.

#include <optional>

#include "gradus/nn/key_value_cache.h"
#include "gradus/nn/layers.h"
#include "gradus/nn/positions.h"

namespace gradus::nn {

struct MultiHeadAttentionOptions {
  int64_t heads = 1;      ///< query heads; must divide dim unless key_dim and value_dim are given
  int64_t kv_heads = 0;   ///< key/value heads, a divisor of `heads`; 0: `heads`
  int64_t key_dim = 0;    ///< size of each head's queries and keys; 0: dim / heads
  int64_t value_dim = 0;  ///< size of each head's values; 0: dim / heads
  int64_t rotary = 0;     ///< rotary positions for at most this many tokens; 0: none
  RotaryOptions frequencies = {};  ///< of rotary positions
  /// another layer's `positions`, to be shared instead of computed: (rotary, key_dim)
  Tensor positions = {};
  bool causal = false;    ///< tokens attend only to themselves and earlier tokens
  bool bias = true;       ///< in both linear layers
  bool qkv_bias = false;  ///< a bias of queries, keys and values, with or without `bias`
  double dropout = 0;     ///< of attention weights and output
  /// if causal, tokens attend only to the last `window` tokens, themselves included; 0: to all
  int64_t window = 0;
  bool qk_norm = false;  ///< RMSNorm of each head's queries and keys, before rotary positions
  double eps = 1e-6;     ///< added to the mean square by qk_norm
  /// Values are a v + b first_values, with learnt scalars a and b, at first 1/2 each.
  bool value_shortcut = false;
};
/// Multi-head self-attention or cross-attention: (B, T, dim) -> (B, T, dim). Vaswani et al. 2017,
/// section 3.2.2. Fewer key/value heads than query heads: Ainslie et al. 2023, arXiv 2305.13245; a
/// single key/value head: Shazeer 2019, arXiv 1911.02150. Rotary positions: Su et al. 2021, arXiv
/// 2104.09864. A window: Jiang et al. 2023, arXiv 2310.06825. Biases of queries, keys and values
/// alone: Qwen 2 (Yang et al. 2024, arXiv 2407.10671). Norms of queries and keys: Henry et al. 2020,
/// arXiv 2010.04245; Dehghani et al. 2023, arXiv 2302.05442; in this form Qwen 3's. The shortcut from the first layer's values:
/// Zhou et al. 2024, arXiv 2410.17897.
struct MultiHeadAttention : Module {
  int64_t heads, kv_heads, key_dim, value_dim;  ///< see MultiHeadAttentionOptions
  bool causal;     ///< tokens attend only to themselves and earlier ones
  int64_t window;  ///< of these, only to the last `window`; 0: to all
  ///@{
  /// qkv: dim -> heads * key_dim + kv_heads * (key_dim + value_dim), the concatenation of queries,
  /// keys and values. proj: heads * value_dim -> dim.
  Linear qkv, proj;
  ///@}
  const Tensor positions;  ///< if rotary: (its maximum length, key_dim); not in the state dict
  Dropout dropout;         ///< of attention weights and output
  std::optional<RMSNorm> q_norm, k_norm;  ///< if qk_norm: over key_dim, the same for all heads
  const Tensor value_shortcut;            ///< if value_shortcut: (2), the scalars a and b
  MultiHeadAttention(int64_t dim, const MultiHeadAttentionOptions& options);

  /// Self-attention. `mask` broadcasts to (B, heads, T, T): bool, true where a token may attend to
  /// another, or floating, added to the scores. For a stack of layers with value_shortcut,
  /// `first_values` points to one tensor, which the first layer, without the option, sets and the
  /// others read: (B, T, kv_heads * value_dim).
  Tensor operator()(const Tensor& x, const Tensor& mask = {}, Tensor* first_values = nullptr) const;
  /// Self-attention of the next T tokens, x, which attend to the cached tokens too and are appended
  /// to the cache. Requires causal attention, and T = 1 if the cached sequences' lengths differ.
  /// `first_values` are these T tokens'.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, Tensor* first_values = nullptr) const;
  /// An empty cache for `batch` sequences of up to `capacity` tokens.
  KeyValueCache make_cache(int64_t batch, int64_t capacity) const;

  /// Cross-attention: queries from x (B, Tq, dim), keys and values from `memory` (B, Tk, dim).
  /// `mask` broadcasts to (B, heads, Tq, Tk). Throws Error if the attention is causal or rotary, or
  /// has a value_shortcut.
  Tensor cross(const Tensor& x, const Tensor& memory, const Tensor& mask = {}) const {
    return cross(x, keys_and_values(memory), mask);
  }
  /// Cross-attention with what keys_and_values() returned for the memory.
  Tensor cross(const Tensor& x, const KeysAndValues& memory, const Tensor& mask = {}) const;
  /// Keys and values of `memory` (B, Tk, dim) for cross().
  KeysAndValues keys_and_values(const Tensor& memory) const;

 private:
  struct Resolved;  // checked options, defaults filled in
  MultiHeadAttention(int64_t dim, const Resolved& options);
  Tensor position_table(const MultiHeadAttentionOptions& options);
  Tensor project(const Tensor& x, Tensor* first_values) const;
  Tensor rotated(const Tensor& x, const KeyValueCache* cache) const;
  Tensor output(const Tensor& y) const;
};

/// Mask of real tokens: true at the first lengths[b] positions of sequence b, false at padding.
/// lengths (batch) int64 -> bool (batch, 1, 1, longest), a mask for MultiHeadAttention; its
/// squeeze(1) is one for Attention. Returns an undefined tensor if lengths is undefined. Throws
/// Error unless each length is from 1 to longest.
Tensor padding_mask(const Tensor& lengths, int64_t batch, int64_t longest);

}  // namespace gradus::nn
