#pragma once
// Losses. Reduction::mean has the same divisor as in PyTorch. Weights cannot require grad.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// How losses are reduced: to their mean, to their sum, or not at all.
enum class Reduction { mean, sum, none };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  int64_t ignore_index = -100;            ///< targets with this value are ignored
  double label_smoothing = 0;             ///< eps: the target becomes (1 - eps) onehot + eps/C
  Tensor class_weights = {};              ///< a factor per class, (C); 1 if undefined
};
/// -sum_c target_c log softmax(logits)_c over the last axis. logits (..., C); targets are class
/// indices, int64 (...), or probabilities of logits' shape and dtype. With class weights, each term
/// of the sum is multiplied by its class's weight. Reduction::mean divides by the total class
/// weight of the targets not ignored if they are indices (NaN if that is 0), by the number of
/// examples if they are probabilities.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
struct NLLLossOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  int64_t ignore_index = -100;            ///< targets with this value are ignored
  Tensor class_weights = {};              ///< a factor per class, (C); 1 if undefined
};
/// -log_probs[target] over the last axis: log_probs (..., C) from log_softmax, targets class
/// indices, int64 (...). Reduction::mean divides by the total class weight of the targets not
/// ignored, and is NaN if all are ignored. cross_entropy fuses log_softmax and this loss.
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NLLLossOptions& options = {});
struct KLDivOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  bool log_target = false;                ///< the target holds log-probabilities
};
/// Kullback-Leibler divergence, elementwise: t (log t - x) for the input x, log-probabilities, and
/// the target t, probabilities (0 where t is 0 and x finite). With log_target, the divergence is
/// e^t (t - x). Reduction::mean divides by the number of elements; PyTorch's "batchmean" is
/// kl_div(input, target, {.reduction = Reduction::sum}) / input.size(0).
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options = {});

/// For losses without other options.
struct LossOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
};
/// |input - target|; the gradient is 0 where they are equal.
Tensor l1_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
/// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
/// max(0, 1 - t x) for scores x and targets t, each -1 or 1; the gradient is 0 where t x is 1.
/// Throws Error for other targets. Cortes & Vapnik 1995.
Tensor hinge_loss(const Tensor& scores, const Tensor& targets, const LossOptions& options = {});

struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  double beta = 1;                        ///< the distance at which the loss becomes linear
};
/// With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta/2. With beta = 0 this is
/// l1_loss. Girshick 2015, arXiv 1504.08083, equation 3.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options = {});

struct MultiMarginLossOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  double margin = 1;                      ///< by which the true class should win
  int p = 1;                              ///< the exponent, 1 or 2
  Tensor class_weights = {};              ///< a factor per true class, (C); 1 if undefined
};
/// w_t/C sum_{c != t} max(0, margin - x_t + x_c)^p: x (..., C), targets t class indices, int64
/// (...), w the class weights. Reduction::mean divides by the number of examples. This is
/// torch.nn.MultiMarginLoss.
Tensor multi_margin_loss(const Tensor& x, const Tensor& targets,
                         const MultiMarginLossOptions& options = {});

struct BCEOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  Tensor weights = {};  ///< a factor per element, broadcast to the input; 1 if undefined
};
/// -(t log p + (1-t) log(1-p)) for probabilities p and targets t, each logarithm clamped to at
/// least -100. Reduction::mean divides by the number of elements, whatever their weights. Throws
/// Error if p is outside [0, 1]. For logits use binary_cross_entropy_with_logits, which stays exact
/// where p would round to 0 or 1.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const BCEOptions& options = {});
struct BCEWithLogitsOptions {
  Reduction reduction = Reduction::mean;  ///< mean by default
  Tensor weights = {};  ///< a factor per element, broadcast to the logits; 1 if undefined
  /// A factor w of the first term, broadcast to the logits; 1 if undefined. (Negative) / (positive)
  /// examples per class give both the same influence.
  Tensor positive_weights = {};
};
/// -(w t log sigmoid(x) + (1-t) log(1 - sigmoid(x))) for logits x and targets t, without overflow:
/// where x is infinite, 0 if t is the class that x is certain of, else infinity. Reduction::mean
/// divides by the number of elements, whatever their weights.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BCEWithLogitsOptions& options = {});

}  // namespace gradus
