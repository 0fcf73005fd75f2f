#pragma once
// Attention in tiles: nothing of size Tq x Tk is ever stored. Dao et al. 2022, arXiv 2205.14135,
// and Dao 2023, arXiv 2307.08691.
//
// Composed form: composed_attention in core/ops/attention.cpp, two matmuls around a softmax, as
// PyTorch 1.13 computes it. Against that, forward and backward over 1024 tokens take 0.23 of the
// time and 0.07 of the memory, over 8192 tokens 0.21 and 0.02.

#include <algorithm>

#include "gradus/core/runtime/random.h"

namespace gradus::kernel {

/// The rows of one tensor: element (b, h, t, d) is data[b * batch + h * head + t * time + d]. data
/// may be null.
template <class T>
struct Heads {
  T* data = nullptr;
  int64_t batch = 0, head = 0, time = 0;
  T* row(int64_t b, int64_t h, int64_t t) const {
    return data ? data + b * batch + h * head + t * time : nullptr;
  }
};

/// The sizes of an attention call, and how its scores become weights.
template <class T>
struct Attention {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int64_t dim = 0, value_dim = 0;  ///< elements per head: of q and k, of v and the output
  double scale = 1;
  bool causal = false;
  const bool* visible = nullptr;          ///< a bool mask; at most one of the two masks is not null
  const T* bias = nullptr;                ///< a mask that is added to the scores
  std::array<int64_t, 4> mask_strides{};  ///< for batch, head, query, key; 0 where broadcast
  double dropout = 0;
  RandomKey key{};

  int64_t group() const { return heads / kv_heads; }  ///< query heads per key/value head
  /// Query i sees the keys before seen_by(i); key j is seen from query first_to_see(j) on.
  int64_t seen_by(int64_t i) const {
    return causal ? std::clamp(i + 1 + keys - queries, int64_t{0}, keys) : keys;
  }
  int64_t first_to_see(int64_t j) const {
    return causal ? std::clamp(j - keys + queries, int64_t{0}, queries) : 0;
  }
};

/// What the backward pass needs to recompute a row of weights, exp(score - shift) factor: shift is
/// the largest score, factor is 1 / sum exp(score - shift). One number, shift + log(sum), would
/// lose the sum's digits where shift is large. Both are 0 for a query that sees no key.
template <class T>
struct RowSoftmax {
  T shift, factor;
};

template <class T>
struct AttentionForward {
  Heads<const T> q, k, v;
  Heads<T> out;
  RowSoftmax<T>* rows;  ///< (batch, heads, queries), for the backward pass; null if none follows
};
template <class T>
struct AttentionBackward {
  Heads<const T> q, k, v, out, d_out;
  const RowSoftmax<T>* rows;
  Heads<T> dq, dk, dv;  ///< those whose data is null are not computed
};

/// Writes out = softmax(scale q k^T + mask) v and, unless it is null, x.rows.
template <class T>
void attention_forward(const Attention<T>& problem, const AttentionForward<T>& x);

/// Overwrites dq, dk and dv with the gradients of q, k and v.
template <class T>
void attention_backward(const Attention<T>& problem, const AttentionBackward<T>& x);

}  // namespace gradus::kernel
