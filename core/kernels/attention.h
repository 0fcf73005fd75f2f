#pragma once
// Computes attention tile by tile, so that the scores of all queries and keys are never stored at
// once, as in FlashAttention (Dao et al. 2022, arXiv 2205.14135; Dao 2023, arXiv 2307.08691).
//
// The composed form, written with basic ops, is composed_attention in core/ops/attention.cpp: two
// matmuls around a softmax, which is also how PyTorch 1.13 computes attention. For 1024 tokens,
// forward and backward with this kernel take 0.23 of PyTorch's time and 0.07 of its memory; for
// 8192 tokens, 0.21 and 0.02.

#include <algorithm>

#include "gradus/core/runtime/modes.h"
#include "gradus/core/runtime/random.h"

namespace gradus::kernel {

/// A tensor (B, H, T, D) as a pointer and the strides of its first three axes: element (b, h, t, d)
/// is data[b * batch + h * head + t * time + d]. data may be null.
template <class T>
struct Heads {
  T* data = nullptr;
  int64_t batch = 0, head = 0, time = 0;
  T* row(int64_t b, int64_t h, int64_t t) const {
    return data ? data + b * batch + h * head + t * time : nullptr;
  }
};

/// The sizes and options of an attention call.
template <class T>
struct Attention {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int64_t dim = 0, value_dim = 0;  ///< head size of q and k (dim), and of v and out (value_dim)
  double scale = 1;
  bool causal = false;            ///< query i sees no key after key i + keys - queries
  int64_t window = 0;             ///< query i sees at most `window` keys. The last of them is key
                                  ///< i + keys - queries. Must be `keys` if there is no limit or if
                                  ///< `causal` is false
  const bool* visible = nullptr;  ///< a boolean mask, or null. Where it is false, the query does
                                  ///< not see the key
  const T* bias = nullptr;        ///< a mask that is added to the scores, or null. At most one of
                                  ///< `visible` and `bias` is given
  std::array<int64_t, 4> mask_strides{};  ///< strides of `visible` or `bias` along batch, head,
                                          ///< query and key; 0 along broadcast axes
  double dropout = 0;
  RandomKey key{};
  bool rounded = core::modes().bfloat16;  ///< whether to round float32 operands of products to
                                          ///< bfloat16 (never done in builds without AVX512-BF16)

  int64_t group() const { return heads / kv_heads; }  ///< query heads per key/value head
  /// Returns the first key that query i sees. `causal` and `window` determine four such bounds:
  /// query i sees keys [first_seen(i), seen_by(i)), and key j is seen by queries [first_to_see(j),
  /// end_to_see(j)). A mask may hide more keys. No bound decreases as its argument grows.
  int64_t first_seen(int64_t i) const {
    return window < keys ? std::clamp(i + 1 + keys - queries - window, int64_t{0}, keys) : 0;
  }
  int64_t seen_by(int64_t i) const {
    return causal ? std::clamp(i + 1 + keys - queries, int64_t{0}, keys) : keys;
  }
  int64_t first_to_see(int64_t j) const {
    return causal ? std::clamp(j - keys + queries, int64_t{0}, queries) : 0;
  }
  int64_t end_to_see(int64_t j) const {
    return window < keys ? std::clamp(j - keys + queries + window, int64_t{0}, queries) : queries;
  }
};

/// The softmax statistics of one row of scores. From them, the backward pass recomputes the row's
/// attention weights as exp(score - shift) * factor. shift is the row's largest score, and factor
/// is 1 / sum(exp(score - shift)). Both are 0 for a query that sees no key. They are not combined
/// into shift - log(factor), because the logarithm would be rounded away next to a large shift.
template <class T>
struct RowSoftmax {
  T shift, factor;
};

/// The operands and results of attention_forward: q (batch, heads, queries, dim), k (batch,
/// kv_heads, keys, dim), v (batch, kv_heads, keys, value_dim) and out (batch, heads, queries,
/// value_dim). The sizes are members of Attention.
template <class T>
struct AttentionForward {
  Heads<const T> q, k, v;
  Heads<T> out;
  RowSoftmax<T>* rows;  ///< result (batch, heads, queries), or null if no backward pass follows
};
/// The operands and results of attention_backward. out and rows are results of attention_forward,
/// and d_out is the gradient of out. d_out, dq, dk and dv have the shapes of out, q, k and v.
template <class T>
struct AttentionBackward {
  Heads<const T> q, k, v, out, d_out;
  const RowSoftmax<T>* rows;
  Heads<T> dq, dk, dv;  ///< the results; a gradient whose data is null is not computed
};

/// Writes x.out = dropout(softmax(scale q k^T + mask)) v. For a query that sees no key, the row of
/// x.out is 0. Unless x.rows is null, also writes the softmax statistics of each row of scores to
/// x.rows.
template <class T>
void attention_forward(const Attention<T>& problem, const AttentionForward<T>& x);

/// Overwrites x.dq, x.dk and x.dv with the gradients of q, k and v. Skips those whose data is null.
template <class T>
void attention_backward(const Attention<T>& problem, const AttentionBackward<T>& x);

}  // namespace gradus::kernel
