#pragma once
// Additive attention, Bahdanau, Cho, Bengio 2015, arXiv 1409.0473.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// How well each query fits each key, sum_h v_h tanh(q_ih + k_jh): q (B, Tq, H), k (B, Tk, H) and v
/// (H) give (B, Tq, Tk). Keys of all steps go through their weight once, `linear(source, W)`; of
/// the scores, padding masked with -infinity, softmax makes weights.
Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace gradus
