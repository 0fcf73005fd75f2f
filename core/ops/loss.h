#pragma once
// Losses. Reduction::none keeps one loss an example; mean divides as PyTorch's do.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// What becomes of the examples' losses: their mean, their sum, or each as it is.
enum class Reduction { mean, sum, none };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  int64_t ignore_index = -100;            ///< targets with this value count for nothing
  double label_smoothing = 0;             ///< eps: target (1-eps) onehot + eps/C
  Tensor class_weights = {};              ///< (C) or undefined
};
/// -sum_c target_c log softmax(logits)_c over the last axis. logits (..., C); targets: class
/// indices int64 (...), or probabilities of logits' shape and dtype. Reduction::mean divides by the
/// summed weight of the targets that count (indices), or by the number of examples (probabilities),
/// as PyTorch's does.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
struct NLLLossOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  int64_t ignore_index = -100;            ///< targets with this value count for nothing
  Tensor class_weights = {};              ///< (C) or undefined
};
/// -log_probs[target] over the last axis, as log_softmax makes them: log_probs (..., C), targets
/// class indices int64 (...). Reduction::mean divides by the summed weight of the targets that
/// count, as PyTorch's does (0 / 0 = NaN where none does). cross_entropy is both in one.
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NLLLossOptions& options = {});
/// t (log t - x) for the log-probabilities x and the probabilities t (0 where t is 0 and x finite),
/// or e^t (t - x) where t are log-probabilities too; one loss an element. Reduction::mean divides
/// by the number of elements, as PyTorch's does; the divergence per example ("batchmean") is
/// kl_div(x, t, Reduction::sum) / x.size(0).
Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
              bool log_target = false);
/// |input - target|, with gradient 0 where they are equal.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta/2. beta 0: l1_loss.
/// Girshick 2015, arXiv 1504.08083, equation 3.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::mean, double beta = 1);
/// max(0, 1 - t x) for scores x and targets t, each -1 or 1; gradient 0 where t x is 1. Throws
/// Error on other targets. Cortes & Vapnik 1995.
Tensor hinge_loss(const Tensor& scores, const Tensor& targets,
                  Reduction reduction = Reduction::mean);
/// 1/C sum over the classes c other than t of max(0, margin - x_t + x_c): x (..., C), targets t
/// class indices int64 (...). torch.nn.MultiMarginLoss with p 1.
Tensor multi_margin_loss(const Tensor& x, const Tensor& targets,
                         Reduction reduction = Reduction::mean, double margin = 1);
/// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// -(t log p + (1-t) log(1-p)), each logarithm at least -100, of probabilities p. Throws Error on
/// one outside [0, 1]. Of logits: binary_cross_entropy_with_logits, which is exact where p would
/// round to 0 or 1.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            Reduction reduction = Reduction::mean);
/// -(t log sigmoid(x) + (1-t) log(1 - sigmoid(x))), without overflow.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        Reduction reduction = Reduction::mean);

}  // namespace gradus
