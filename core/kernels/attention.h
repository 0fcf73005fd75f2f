#pragma once
// Computes attention tile by tile, so that the scores of all queries and keys are never stored at
// once. Dao et al. 2022, arXiv 2205.14135, and Dao 2023, arXiv 2307.08691.
//
// The composed form is composed_attention in core/ops/attention.cpp: two matmuls around a softmax,
// as in PyTorch 1.13. For 1024 tokens, forward and backward with this kernel take 0.23 of PyTorch's
// time and 0.07 of its memory; for 8192 tokens, 0.21 and 0.02.

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
  int64_t window = 0;             ///< the most keys that a query sees, the last of which is key i +
                                  ///< keys - queries; `keys`, not 0, if there is no limit
  const bool* visible = nullptr;  ///< a mask: false hides a key from a query, in addition to
                                  ///< `causal` and `window`; or null
  const T* bias = nullptr;        ///< a mask added to the scores; or null. At most one of the two
                                  ///< masks is given
  std::array<int64_t, 4> mask_strides{};  ///< the mask's strides for batch, head, query, key; 0
                                          ///< where broadcast
  double dropout = 0;
  RandomKey key{};
  bool rounded = core::modes().bfloat16;  ///< round operands of products, if the build can

  int64_t group() const { return heads / kv_heads; }  ///< query heads per key/value head
  /// Without a mask, query i sees keys [first_seen(i), seen_by(i)), and key j is seen by queries
  /// [first_to_see(j), end_to_see(j)). The bounds do not decrease as i or j grows.
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

/// Two numbers per row of scores, from which the backward pass recomputes the row's weights as
/// exp(score - shift) * factor: shift is the row's largest score, and factor is 1 / sum(exp(score -
/// shift)). They are not combined into shift + log(sum), because log(sum) would be rounded away
/// next to a large shift. shift and factor are 0 for a query that sees no key.
template <class T>
struct RowSoftmax {
  T shift, factor;
};

/// The operands and results of attention_forward. q and out are (batch, heads, queries, .), k and v
/// are (batch, kv_heads, keys, .).
template <class T>
struct AttentionForward {
  Heads<const T> q, k, v;
  Heads<T> out;
  RowSoftmax<T>* rows;  ///< (batch, heads, queries); null if no backward pass follows
};
/// The operands and results of attention_backward. out and rows are results of the forward pass. A
/// gradient has the shape of its tensor.
template <class T>
struct AttentionBackward {
  Heads<const T> q, k, v, out, d_out;
  const RowSoftmax<T>* rows;
  Heads<T> dq, dk, dv;  ///< not computed where data is null
};

/// Writes x.out = dropout(softmax(scale q k^T + mask)) v and, unless x.rows is null, x.rows. For a
/// query that sees no key, the row of x.out is 0.
template <class T>
void attention_forward(const Attention<T>& problem, const AttentionForward<T>& x);

/// Overwrites x.dq, x.dk and x.dv with the gradients of q, k and v.
template <class T>
void attention_backward(const Attention<T>& problem, const AttentionBackward<T>& x);

}  // namespace gradus::kernel
