#pragma once
// Attention: queries against keys with a choice of score, and the transformer's multi-head form.

#include <optional>

#include "gradus/nn/layers.h"

namespace gradus::nn {

/// How well a query q fits a key k. Luong et al. 2015, arXiv 1508.04025, section 3.1; additive:
/// Bahdanau et al. 2015, arXiv 1409.0473, appendix A.1.2; scaled: Vaswani et al. 2017.
enum class Score {
  dot,         ///< q . k
  scaled_dot,  ///< q . k / sqrt(dim)
  bilinear,    ///< q^T W k
  additive     ///< w2^T tanh(W1 [q, k])
};

/// What attention gives, and where it looked.
struct AttentionResult {
  Tensor output;   ///< (B, Tq, Dv)
  Tensor weights;  ///< (B, Tq, Tk); each query's sum to 1
};

/// Attention with one head: each query's weights over the keys are the softmax of its scores, its
/// output the sum of the values by these weights.
struct Attention : Module {
  Score score;                       ///< how well a query fits a key
  const Tensor w;                    ///< bilinear: (query_dim, key_dim)
  std::optional<Linear> query, key;  ///< additive: W1's two parts, to `hidden`
  const Tensor v;                    ///< additive: w2 (hidden)
  /// For dot and scaled_dot query_dim and key_dim must be equal. hidden 0: query_dim.
  Attention(Score score, int64_t query_dim, int64_t key_dim, int64_t hidden = 0);

  /// queries (B, Tq, query_dim), keys (B, Tk, key_dim), values (B, Tk, Dv); the bool mask broadcasts
  /// to (B, Tq, Tk): true where a key may be seen. A query that sees none gets 0.
  AttentionResult operator()(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const Tensor& mask = {}) const {
    return attend(queries, prepare(keys), values, mask);
  }
  /// The part of the scores that is the keys' own, to be used for many queries one after another:
  /// (B, Tk, ...).
  Tensor prepare(const Tensor& keys) const;
  /// operator() with keys that prepare() has seen.
  AttentionResult attend(const Tensor& queries, const Tensor& prepared, const Tensor& values,
                         const Tensor& mask = {}) const;
};

/// Keys and values by heads: (B, Hk, T, key_dim) and (B, Hk, T, value_dim).
struct KeysAndValues {
  Tensor keys, values;  ///< of as many tokens
};

/// The keys and values of the tokens read so far, in memory set aside once. It can be moved, not
/// copied: a copy would share the memory and not the length.
class KeyValueCache {
 public:
  KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;
  /// For `batch` sequences of up to `capacity` tokens. value_dim 0: as key_dim.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t capacity, int64_t key_dim,
                Dtype dtype = float32, int64_t value_dim = 0);
  /// Writes k and v (B, Hk, T, D) behind what is there. Throws Error if they do not fit, or while
  /// gradients are recorded.
  void append(const Tensor& k, const Tensor& v);
  /// What is there: (B, Hk, length, D), views.
  Tensor keys() const { return k_.slice(2, 0, length_); }
  Tensor values() const { return v_.slice(2, 0, length_); }  ///< as keys()
  int64_t length() const { return length_; }                 ///< tokens that are there
  int64_t capacity() const { return k_.size(2); }            ///< the most tokens
  /// Sequence i goes on from where sequence rows[i] stands: rows (batch), int64.
  void reorder(const Tensor& rows);
  /// Forgets all.
  void clear() { length_ = 0; }

 private:
  Tensor k_, v_;  // (B, Hk, capacity, D)
  int64_t length_ = 0;
};

struct MultiHeadAttentionOptions {
  int64_t heads = 1;  ///< of queries; dim must be a multiple unless key_dim and value_dim are given
  int64_t kv_heads = 0;   ///< heads of keys and values, a divisor of heads; 0: as many
  int64_t key_dim = 0;    ///< of a head's queries and keys; 0: dim / heads
  int64_t value_dim = 0;  ///< of a head's values; 0: dim / heads
  int64_t rotary = 0;     ///< the most places, if queries and keys are turned by theirs; 0: not
  bool causal = false;    ///< a token sees itself and those before it only
  bool bias = true;       ///< in both linear layers
  double dropout = 0;     ///< of the attention weights and of the output
};
/// Multi-head attention, of a sequence to itself or to another: (B, T, dim) -> (B, T, dim).
/// Vaswani et al. 2017, section 3.2.2; with fewer key/value heads, Ainslie et al. 2023, arXiv
/// 2305.13245 (one: Shazeer 2019, arXiv 1911.02150); rotary: Su et al. 2021, arXiv 2104.09864.
struct MultiHeadAttention : Module {
  int64_t heads, kv_heads, key_dim, value_dim;  ///< see the options
  bool causal;                                  ///< a token sees itself and those before it only
  ///@{
  /// dim -> heads key_dim + kv_heads (key_dim + value_dim): queries, keys and values side by side;
  /// heads value_dim -> dim.
  Linear qkv, proj;
  ///@}
  const Tensor positions;  ///< rotary: (most places, key_dim), not saved with the state
  Dropout dropout;         ///< of the attention weights and of the output
  MultiHeadAttention(int64_t dim, const MultiHeadAttentionOptions& options);

  /// Self-attention. `mask` broadcasts to (B, heads, T, T): bool, true where a token may be seen, or
  /// added to the scores.
  Tensor operator()(const Tensor& x, const Tensor& mask = {}) const;
  /// x holds the next T tokens, which see the cache's too and are appended to it. Causal only.
  Tensor operator()(const Tensor& x, KeyValueCache& cache) const;
  /// An empty cache for `batch` sequences of up to `capacity` tokens.
  KeyValueCache make_cache(int64_t batch, int64_t capacity) const;

  /// Cross-attention: x (B, Tq, dim) asks what `memory` (B, Tk, dim) answers. `mask` broadcasts to
  /// (B, heads, Tq, Tk). Never causal; without rotary places.
  Tensor cross(const Tensor& x, const Tensor& memory, const Tensor& mask = {}) const {
    return cross(x, keys_and_values(memory), mask);
  }
  /// The same with the memory's keys and values at hand.
  Tensor cross(const Tensor& x, const KeysAndValues& memory, const Tensor& mask = {}) const;
  /// What cross() asks of `memory` (B, Tk, dim), by heads.
  KeysAndValues keys_and_values(const Tensor& memory) const;

 private:
  struct Resolved;  // checked options, defaults filled in
  MultiHeadAttention(int64_t dim, const Resolved& options);
  Tensor rotated(const Tensor& x, int64_t offset) const;
  Tensor output(const Tensor& y) const;
};

/// True at the first lengths[b] places of row b, where tokens are real and not padding: lengths
/// (batch) int64 -> bool (batch, 1, 1, longest), a mask for the keys of many heads; squeeze(1) makes
/// it one for Attention's. Undefined where lengths is. Throws Error unless each length is from 1 to
/// longest.
Tensor padding_mask(const Tensor& lengths, int64_t batch, int64_t longest);

}  // namespace gradus::nn
