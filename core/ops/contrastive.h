#pragma once
// Contrastive losses: cross entropy over the scores s(q_i, k_j) = sim(q_i, k_j) / temperature of N
// queries q and all keys k. sim is the cosine similarity or the dot product. The correct class of
// query i is t_i, the index of the key that matches the query:
//   InfoNCE = -1/N sum_i log(exp(s(q_i, k_{t_i})) / sum_j exp(s(q_i, k_j)))
// van den Oord et al. 2018, arXiv 1807.03748, equation 4. These losses throw Error if shapes or
// dtypes do not match, if there are no queries, if the vectors are empty, or if the temperature is
// not positive and finite. All but info_nce compute the scores in blocks of 256 queries and store
// one block at a time.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct ContrastiveOptions {
  double temperature = 0.1;  ///< divides the similarities
  /// A tensor of one element that replaces `temperature`, for example CLIP's exp(-logit_scale).
  Tensor learned_temperature = {};
  /// If true, sim(a, b) = a . b / (|a| |b|), where norms below 1e-12 count as 1e-12; if false,
  /// sim(a, b) = a . b.
  bool cosine = true;
};

/// Returns the InfoNCE loss of each anchor's positive against its negatives,
///   -1/N sum_i log(exp(s(a_i, p_i)) / (exp(s(a_i, p_i)) + sum_k exp(s(a_i, n_ik)))),
/// for anchors a (N, D), positives p (N, D) and negatives n (N, K, D), or (K, D) if all anchors
/// share the negatives. s(a, b) is the similarity of a and b divided by the temperature: the cosine
/// similarity or, if options.cosine is false, the dot product.
Tensor info_nce(const Tensor& anchors, const Tensor& positives, const Tensor& negatives,
                const ContrastiveOptions& options = {});

/// Returns the InfoNCE loss of queries (N, D) over keys (M, D). `targets` (N), int64, contains the
/// index of the matching key of each query. Throws Error if an index is outside [0, M). Computes
/// the similarities in blocks of 256 queries and stores one block at a time.
Tensor contrastive_cross_entropy(const Tensor& queries, const Tensor& keys, const Tensor& targets,
                                 const ContrastiveOptions& options = {});

/// Returns the NT-Xent loss of z (2N, D), whose rows i and i + N are two views of example i. It is
/// the InfoNCE loss with each row as a query and all other rows as its keys: the other view of the
/// same example is the positive, and the remaining 2N - 2 rows are the negatives. Throws Error if
/// the number of rows is odd or N < 2. Chen et al. 2020 (SimCLR), arXiv 2002.05709, equation 1.
Tensor nt_xent(const Tensor& z, const ContrastiveOptions& options = {});
/// Returns nt_xent of a and b, both (N, D), where a_i and b_i are the two views of example i.
Tensor nt_xent(const Tensor& a, const Tensor& b, const ContrastiveOptions& options = {});

/// Returns CLIP's loss for paired embeddings a and b (N, D), for example of images and texts. It is
/// the mean of two InfoNCE losses: with the rows of a as queries and those of b as keys, and the
/// reverse. Row i of a and row i of b belong together. Throws Error if N < 2. Radford et al. 2021,
/// arXiv 2103.00020, figure 3.
Tensor clip_loss(const Tensor& a, const Tensor& b, const ContrastiveOptions& options = {});

}  // namespace gradus
