#pragma once
// Additive attention, Bahdanau, Cho, Bengio 2015, arXiv 1409.0473.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// The scores of queries and keys, sum_h v_h tanh(q_ih + k_jh): q (B, Tq, H), k (B, Tk, H), v (H)
/// -> (B, Tq, Tk). Project the keys once for all steps, `linear(source, W)`; softmax turns the
/// scores, with padding masked by -infinity, into weights.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace gradus
