#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762, equation 1), in tiles with
// an online softmax (Dao et al. 2022, arXiv 2205.14135): memory grows with the sequence length T,
// not with T^2.

#include <optional>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct AttentionOptions {
  bool causal = false;  ///< query i sees only keys j <= i + (Tk - Tq), so the last one sees all
  /// A tensor that broadcasts to the weights' shape, (..., H, Tq, Tk). A bool mask is true where a
  /// query attends to a key; a floating mask is added to the scores.
  Tensor mask = {};
  double dropout = 0;                ///< probability of dropping a weight, in training mode only
  std::optional<double> scale = {};  ///< factor of q k^T; by default 1/sqrt(D)
  /// If causal, a query sees at most this many keys: its last one and those just before it; 0: no
  /// limit. The kernels skip the other keys: their time grows with T * window instead of T^2.
  /// Beltagy et al. 2020, arXiv 2004.05150, section 3.1; Jiang et al. 2023, arXiv 2310.06825.
  int64_t window = 0;
};

/// Attention, softmax(scale q k^T + mask) v: q (..., H, Tq, D), k (..., Hk, Tk, D), v (..., Hk, Tk,
/// Dv) -> (..., H, Tq, Dv). H must be a multiple of Hk: each key/value head serves H/Hk query heads
/// (Ainslie et al. 2023, arXiv 2305.13245). The output is 0 for a query that attends to no key.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

/// Self-attention from one projection: qkv (B, T, (H + 2 Hk) D), the heads of q, then of k, then of
/// v -> (B, T, H D), where H = heads and Hk = kv_heads. q, k and v are not copied out of qkv, and
/// qkv's gradient is computed in one tensor.
Tensor self_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                      const AttentionOptions& options = {});

/// The attention weights softmax(scale q k^T + mask): (..., H, Tq, Tk), without dropout, computed
/// with basic ops. A query that sees no key has weights 0.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});

/// For its lifetime, records the weights of each attention call on this thread, outside the graph,
/// to show what a model attends to. Each call costs an extra attention_weights.
class AttentionTrace {
 public:
  AttentionTrace();
  ~AttentionTrace();
  AttentionTrace(const AttentionTrace&) = delete;
  AttentionTrace& operator=(const AttentionTrace&) = delete;
  /// Whether a trace is open on this thread.
  static bool active() { return current() != nullptr; }
  /// The recorded weights, one tensor (B, H, Tq, Tk) per attention call.
  const std::vector<Tensor>& weights() const { return weights_; }
  /// For attention computed by other ops: if a trace is open on this thread, calls the function
  /// `weights` and appends the tensor it returns.
  template <class Weights>
  static void add(Weights&& weights) {
    if (AttentionTrace* trace = current(); trace && !recomputing())
      trace->weights_.push_back(weights().detach());
  }

 private:
  static AttentionTrace*& current();
  std::vector<Tensor> weights_;
  AttentionTrace* const outer_;
};

}  // namespace gradus
