#pragma once
// Multi-head attention. recurrent.h has single-head attention with a choice of score functions.

#include <optional>

#include "gradus/nn/key_value_cache.h"
#include "gradus/nn/layers.h"
#include "gradus/nn/positions.h"

namespace gradus::nn {

struct MultiHeadAttentionOptions {
  int64_t heads = 1;      ///< number of query heads; must divide dim if key_dim or value_dim is 0
  int64_t kv_heads = 0;   ///< number of key/value heads, a divisor of `heads`; 0 means `heads`
  int64_t key_dim = 0;    ///< size of each head's queries and keys; 0 means dim / heads
  int64_t value_dim = 0;  ///< size of each head's values; 0 means dim / heads
  int64_t rotary = 0;     ///< if > 0: use rotary positions, for at most this many tokens; requires
                          ///< an even key_dim
  RotaryOptions frequencies = {};  ///< frequencies of the rotary positions
  /// The member `positions` of another layer, (rotary, key_dim), to share its table of rotary
  /// positions. `frequencies` is then ignored. If undefined, the layer computes its own table.
  ///
  /// To convert layers that share a table to float64, call to() on a module that contains all of
  /// them. If it is called only on a layer that did not compute the table, to() does not recompute
  /// the table but merely converts its float32 values.
  Tensor positions = {};
  bool causal = false;    ///< tokens attend only to themselves and earlier tokens
  bool bias = true;       ///< add biases in both linear layers, qkv and proj
  bool qkv_bias = false;  ///< add biases to queries, keys and values even if `bias` is false
  double dropout = 0;     ///< dropout probability of the attention weights and of the output
  /// Each token attends only to itself and the window - 1 tokens before it. 0 means no limit; other
  /// values require `causal`.
  int64_t window = 0;
  bool qk_norm = false;  ///< apply RMSNorm to each head's queries and keys, before rotary positions
  double eps = 1e-6;     ///< added to the mean square by qk_norm
  /// If true, the values are a v + b w, where v are the layer's own values and w are the values of
  /// the first layer of the stack (see `first_values` of operator()). a and b are learned scalars
  /// that start at 1/2.
  bool value_shortcut = false;
};
/// Multi-head self-attention or cross-attention: (B, T, dim) -> (B, T, dim). Vaswani et al. 2017,
/// section 3.2.2. Sources of the options:
///   fewer key/value heads than query heads: Ainslie et al. 2023, arXiv 2305.13245
///   one key/value head: Shazeer 2019, arXiv 1911.02150
///   rotary positions: Su et al. 2021, arXiv 2104.09864
///   window: Jiang et al. 2023, arXiv 2310.06825
///   qkv_bias without bias: Qwen 2, Yang et al. 2024, arXiv 2407.10671
///   qk_norm, as in Qwen 3: Henry et al. 2020, arXiv 2010.04245; Dehghani et al. 2023, arXiv
///     2302.05442
///   value_shortcut: Zhou et al. 2024, arXiv 2410.17897
struct MultiHeadAttention : Module {
  int64_t heads, kv_heads, key_dim, value_dim;  ///< options of these names, defaults filled in
  bool causal;     ///< tokens attend only to themselves and earlier tokens
  int64_t window;  ///< each token attends to itself and window - 1 earlier ones; 0 means no limit
  ///@{
  /// qkv maps dim to heads * key_dim + kv_heads * (key_dim + value_dim): the concatenation of
  /// queries, keys and values. proj maps heads * value_dim to dim.
  Linear qkv, proj;
  ///@}
  const Tensor positions;  ///< table of rotary positions, (rotary, key_dim); undefined if the layer
                           ///< uses none; not in state_dict()
  Dropout dropout;         ///< applied to the attention weights and to the output
  std::optional<RMSNorm> q_norm, k_norm;  ///< norms of queries and keys over key_dim, shared by all
                                          ///< heads; empty unless constructed with qk_norm
  /// The learned scalars a and b, (2), see MultiHeadAttentionOptions::value_shortcut. Undefined if
  /// this option is false.
  const Tensor value_shortcut;
  MultiHeadAttention(int64_t dim, const MultiHeadAttentionOptions& options);

  /// Computes self-attention of x (B, T, dim). `mask` broadcasts to (B, heads, T, T). A bool mask
  /// is true where a token may attend to another; a mask of x's dtype is added to the scores. For a
  /// token that may attend to no token, the attention output is 0, and proj adds only its bias.
  ///
  /// `first_values` passes the values of the first layer of a stack to the later layers. Construct
  /// the later layers with value_shortcut, and pass to all layers a pointer to the same tensor. The
  /// first layer assigns its values (B, T, kv_heads * value_dim) to this tensor. The later layers
  /// read the tensor, and throw Error if it is undefined or the pointer is null.
  Tensor operator()(const Tensor& x, const Tensor& mask = {}, Tensor* first_values = nullptr) const;
  /// Computes self-attention of x (B, T, dim), the next T tokens of the sequences in `cache`. These
  /// tokens also attend to the cached tokens, and their keys and values are appended to the cache.
  /// Throws Error if the attention is not causal, if gradients are being recorded, or if T > 1 and
  /// the cached sequences differ in length. Also throws Error if the tokens exceed the cache's
  /// capacity or the number of rotary positions. `first_values` is used as in the overload without
  /// a cache, for the values of these T tokens.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, Tensor* first_values = nullptr) const;
  /// Returns an empty cache for `batch` sequences of up to `capacity` tokens.
  KeyValueCache make_cache(int64_t batch, int64_t capacity) const;

  /// Computes cross-attention: queries come from x (B, Tq, dim), keys and values from `memory` (B,
  /// Tk, dim). `mask` broadcasts to (B, heads, Tq, Tk). A bool mask is true where a query may
  /// attend to a key; a mask of x's dtype is added to the scores. Throws Error if the layer was
  /// constructed with causal, rotary or value_shortcut.
  Tensor cross(const Tensor& x, const Tensor& memory, const Tensor& mask = {}) const {
    return cross(x, keys_and_values(memory), mask);
  }
  /// Computes cross-attention of x (B, Tq, dim) to `memory`, which keys_and_values() returned.
  /// `mask` and the errors are the same as in the overload that takes `memory` as a tensor.
  Tensor cross(const Tensor& x, const KeysAndValues& memory, const Tensor& mask = {}) const;
  /// Returns the keys and values of `memory` (B, Tk, dim), for several calls of cross().
  KeysAndValues keys_and_values(const Tensor& memory) const;

 private:
  struct Resolved;  // valid options, with defaults filled in
  MultiHeadAttention(int64_t dim, const Resolved& options);
  Tensor position_table(const MultiHeadAttentionOptions& options);
  Tensor project(const Tensor& x, Tensor* first_values) const;
  Tensor rotated(const Tensor& x, const KeyValueCache* cache) const;
  Tensor output(const Tensor& y) const;
};

/// Returns an attention mask that hides padding: bool (batch, 1, 1, longest), true at the first
/// lengths[b] positions of sequence b. `lengths` is int64 (batch). The mask is for
/// MultiHeadAttention; squeeze(1) makes it a mask for Attention. Returns an undefined tensor if
/// `lengths` is undefined. Throws Error unless each length is from 1 to `longest`.
Tensor padding_mask(const Tensor& lengths, int64_t batch, int64_t longest);

}  // namespace gradus::nn
