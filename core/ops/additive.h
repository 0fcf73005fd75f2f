#pragma once
// Additive attention, Bahdanau, Cho, Bengio 2015, arXiv 1409.0473.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// The score of each query and key, sum_h v_h tanh(q_ih + k_jh): q (B, Tq, H), k (B, Tk, H), v (H)
/// -> (B, Tq, Tk). Project the keys once for all queries, `linear(source, W)`; mask padding with
/// -infinity before the softmax.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace gradus
