#pragma once
// The scores of additive attention: Bahdanau, Cho, Bengio 2015, arXiv 1409.0473.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns the score s_ij = sum_h v_h tanh(q_ih + k_jh) of each query i and key j: q (B, Tq, H),
/// k (B, Tk, H), v (H) -> (B, Tq, Tk). q and k are already projected. A decoder can therefore
/// project the keys once and use them at every step. The caller must set the scores of padding keys
/// to -infinity before the softmax.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace gradus
