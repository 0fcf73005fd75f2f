#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762, equation 1). It is computed
// in tiles with an online softmax (Dao et al. 2022, arXiv 2205.14135), so memory grows with the
// sequence length T, not with T^2. If the mask requires grad, attention is computed with basic ops
// instead, and memory grows with T^2.

#include <optional>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct AttentionOptions {
  bool causal = false;  ///< query i attends only to keys j <= i + Tk - Tq (Tq queries, Tk keys)
  /// A tensor that broadcasts to the shape of the attention weights, (..., heads, queries, keys). A
  /// bool mask is true where a query may attend to a key. A mask of q's dtype is added to the
  /// scores before the softmax.
  Tensor mask = {};
  double dropout = 0;                ///< probability of zeroing an attention weight; training only
  std::optional<double> scale = {};  ///< factor of q k^T; by default 1/sqrt(head size)
  /// Maximum number of keys that a query attends to: the last key that `causal` allows and the
  /// window - 1 keys before it. 0 means no limit; other values require `causal`. The kernels skip
  /// the keys outside the window, so their time grows with the number of queries times `window`.
  /// Beltagy et al. 2020, arXiv 2004.05150, section 3.1; Jiang et al. 2023, arXiv 2310.06825.
  int64_t window = 0;
};

/// Returns softmax(scale q k^T + mask) v for H query heads and Hk key/value heads:
/// q (..., H, Tq, D), k (..., Hk, Tk, D), v (..., Hk, Tk, Dv) -> (..., H, Tq, Dv). H must be a
/// multiple of Hk: each key/value head serves H/Hk query heads (Ainslie et al. 2023, arXiv
/// 2305.13245). The axes before the heads must be equal; they do not broadcast. If a query may not
/// attend to any key, its output is 0.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

/// Returns self-attention computed from one projection qkv: (B, T, (H + 2 Hk) D) -> (B, T, H D),
/// where H is `heads`, Hk is `kv_heads` and D is the size of a head. The last axis of qkv contains
/// the H heads of q, then the Hk heads of k, then the Hk heads of v. q, k and v are read from qkv
/// without a copy, and their gradients are written to one tensor. Throws Error unless H is a
/// multiple of Hk and below 2^31.
Tensor self_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                      const AttentionOptions& options = {});

/// Returns the attention weights softmax(scale q k^T + mask), without dropout, for H query heads
/// and Hk key heads: q (..., H, Tq, D), k (..., Hk, Tk, D) -> (..., H, Tq, Tk). They are computed
/// with basic ops. If a query may not attend to any key, its weights are 0.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});

/// Records the attention weights of a model, to show what it attends to. While a trace exists, each
/// call of scaled_dot_product_attention or self_attention on the thread that constructed the trace
/// also computes attention_weights() and records them, detached. Calls that recompute() repeats
/// during backward are not recorded again. If traces are nested, only the innermost one records.
class AttentionTrace {
 public:
  AttentionTrace();
  ~AttentionTrace();
  AttentionTrace(const AttentionTrace&) = delete;
  AttentionTrace& operator=(const AttentionTrace&) = delete;
  /// Returns whether an AttentionTrace exists on this thread.
  static bool active() { return current() != nullptr; }
  /// Returns the recorded weights, without dropout: one tensor (B, H, Tq, Tk) per attention call,
  /// where B is the product of all axes before H.
  const std::vector<Tensor>& weights() const { return weights_; }
  /// Calls the function `weights` and appends the tensor (B, H, Tq, Tk) that it returns, detached,
  /// to the innermost trace of this thread. Does nothing if the thread has no trace or if
  /// recomputing() is true. Call this from code that computes attention without
  /// scaled_dot_product_attention or self_attention, such as nn::Attention.
  template <class Weights>
  static void add(Weights&& weights) {
    if (AttentionTrace* trace = current(); trace && !recomputing())
      trace->weights_.push_back(weights().detach());
  }

 private:
  static AttentionTrace*& current();
  std::vector<Tensor> weights_;
  AttentionTrace* outer_;
};

}  // namespace gradus
