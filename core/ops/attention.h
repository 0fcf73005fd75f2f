#pragma once
// Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762, equation 1). It is computed
// in tiles with an online softmax (Dao et al. 2022, arXiv 2205.14135), so memory grows with the
// sequence length T, not with T^2. If the mask requires grad, attention is computed with basic ops
// instead, and memory grows with T^2.

#include <optional>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct AttentionOptions {
  bool causal = false;  ///< query i sees only keys j <= i + (Tk - Tq)
  /// A tensor that broadcasts to the shape of the attention weights, (..., H, Tq, Tk). A bool mask
  /// is true where a query may attend to a key. A mask of q's dtype is added to the scores.
  Tensor mask = {};
  double dropout = 0;                ///< probability of dropping a weight, in training mode only
  std::optional<double> scale = {};  ///< factor of q k^T; 1/sqrt(D) by default
  /// Maximum number of keys that a query sees: the last key that `causal` allows and the window - 1
  /// keys before it. 0 means no limit; other values require `causal`. The kernels skip the keys
  /// outside the window, so their time grows with T * window instead of T^2. Beltagy et al. 2020,
  /// arXiv 2004.05150, section 3.1; Jiang et al. 2023, arXiv 2310.06825.
  int64_t window = 0;
};

/// Returns softmax(scale q k^T + mask) v: q (..., H, Tq, D), k (..., Hk, Tk, D), v (..., Hk, Tk,
/// Dv) -> (..., H, Tq, Dv). H must be a multiple of Hk: each key/value head serves H/Hk query heads
/// (Ainslie et al. 2023, arXiv 2305.13245). The axes before the heads must be equal; they do not
/// broadcast. The output of a query that sees no key is 0.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

/// Computes self-attention from one projection qkv (B, T, (H + 2 Hk) D) -> (B, T, H D), where H =
/// heads and Hk = kv_heads. qkv contains the heads of q, then those of k, then those of v. q, k and
/// v are not copied out of qkv, and the gradient of qkv is computed in one tensor.
Tensor self_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                      const AttentionOptions& options = {});

/// Returns the attention weights softmax(scale q k^T + mask), (..., H, Tq, Tk), without dropout,
/// computed with basic ops. The weights of a query that sees no key are 0.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});

/// While it exists, records the weights of each attention call on the thread that constructed it,
/// to show what a model attends to. For this, scaled_dot_product_attention and self_attention also
/// compute attention_weights(). A call that recompute() repeats is recorded once. The recorded
/// weights are outside the graph. If traces are nested, only the innermost records.
class AttentionTrace {
 public:
  AttentionTrace();
  ~AttentionTrace();
  AttentionTrace(const AttentionTrace&) = delete;
  AttentionTrace& operator=(const AttentionTrace&) = delete;
  /// Returns whether this thread has a trace.
  static bool active() { return current() != nullptr; }
  /// Returns the recorded weights, without dropout: one tensor (B, H, Tq, Tk) per attention call,
  /// where B is the product of all axes before H.
  const std::vector<Tensor>& weights() const { return weights_; }
  /// Calls the function `weights` and appends the tensor (B, H, Tq, Tk) that it returns to this
  /// thread's trace, for attention that other ops compute. Does nothing if there is no trace or if
  /// recomputing() is true.
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
