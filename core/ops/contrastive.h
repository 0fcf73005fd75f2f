#pragma once
// Contrastive losses: which of many keys is a query's own? The cross entropy of the similarities
// s_ij = sim(q_i, k_j) / temperature, a query's own key t_i the class to be found:
//   InfoNCE = -1/N sum_i log(exp(s_i,t_i) / sum_j exp(s_ij))
// van den Oord et al. 2018, arXiv 1807.03748, equation 4. All throw Error on shapes or dtypes that
// do not fit, on an empty batch, and on a temperature that is not above 0 and finite.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct ContrastiveOptions {
  double temperature = 0.1;         ///< divides the similarities
  Tensor learned_temperature = {};  ///< of one element, instead; CLIP's logit scale e^s is exp(-s)
  bool cosine = true;  ///< sim(a, b) = a . b / (|a| |b|), 0 for a zero vector; else a . b
};

/// Each anchor's own positive against negatives: anchors (N, D), positives (N, D), negatives
/// (N, K, D) of its own or (K, D) of all ->
/// -1/N sum_i log(exp(s(a_i, p_i)) / (exp(s(a_i, p_i)) + sum_k exp(s(a_i, n_k)))).
Tensor info_nce(const Tensor& anchors, const Tensor& positives, const Tensor& negatives,
                const ContrastiveOptions& options = {});

/// Each query's own key among all: queries (N, D), keys (M, D), targets (N) int64, the own keys'
/// numbers. Here and in what follows no more than 256 rows of similarities exist at a time: backward
/// makes them anew.
Tensor contrastive_cross_entropy(const Tensor& queries, const Tensor& keys, const Tensor& targets,
                                 const ContrastiveOptions& options = {});

/// NT-Xent: rows i and i + N of z (2N, D) are two views of one thing; a view's key is the other one,
/// among all but itself. Throws Error for N < 2, as there is nothing to tell it from. Chen et al.
/// 2020 (SimCLR), arXiv 2002.05709, equation 1.
Tensor nt_xent(const Tensor& z, const ContrastiveOptions& options = {});
/// The same of two tensors of views (N, D).
Tensor nt_xent(const Tensor& a, const Tensor& b, const ContrastiveOptions& options = {});

/// For pairs of two kinds, a and b (N, D), images and their texts: the mean of the cross entropies
/// of each a among all b and of each b among all a. Throws Error for N < 2. Radford et al. 2021
/// (CLIP), arXiv 2103.00020, figure 3.
Tensor clip_loss(const Tensor& a, const Tensor& b, const ContrastiveOptions& options = {});

}  // namespace gradus
