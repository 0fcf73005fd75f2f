#pragma once
// Loss functions. Reduction::mean has the same divisor as in PyTorch. Weights cannot require grad.
// Unless stated otherwise, the two inputs must have the same shape and dtype; they do not
// broadcast.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// How losses are reduced: to their mean, to their sum, or not at all.
enum class Reduction { mean, sum, none };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  int64_t ignore_index = -100;            ///< class indices with this value are ignored
  double label_smoothing = 0;             ///< eps: with C classes, targets t (one-hot for
                                          ///< indices) become (1 - eps) t + eps/C
  Tensor class_weights = {};              ///< a factor per class, (C); 1 if undefined
};
/// Returns -sum_c target_c log softmax(logits)_c over the last axis. logits is (..., C). targets
/// are class indices, int64 (...), or probabilities of logits' shape and dtype. With class weights,
/// each term of the sum is multiplied by the weight of its class. For class indices,
/// Reduction::mean divides by the total class weight of the targets not ignored, and is NaN if that
/// total is 0. For probabilities, Reduction::mean divides by the number of examples. Throws Error
/// if a class index is neither in [0, C) nor ignore_index.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
struct NLLLossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  int64_t ignore_index = -100;            ///< targets with this value are ignored
  Tensor class_weights = {};              ///< a factor per class, (C); 1 if undefined
};
/// Returns -log_probs[target], times the weight of the target's class: log_probs (..., C) from
/// log_softmax, targets (...), int64 class indices. Reduction::mean divides by the total class
/// weight of the targets not ignored, and is NaN if all targets are ignored or have weight 0.
/// Throws Error if a target is neither in [0, C) nor ignore_index. cross_entropy fuses log_softmax
/// and this loss.
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NLLLossOptions& options = {});
struct KLDivOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  bool log_target = false;                ///< whether the target contains log-probabilities
};
/// Returns the Kullback-Leibler divergence, t (log t - x) per element, where x = input contains
/// log-probabilities and t = target contains probabilities. An element is 0 where t is 0 and x is
/// finite. With log_target, t contains log-probabilities, and an element is e^t (t - x), which is
/// NaN where t is -infinity. Reduction::mean divides by the number of elements. PyTorch's
/// "batchmean" is
///   kl_div(input, target, {.reduction = Reduction::sum}) / input.size(0).
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options = {});

/// Options of losses whose only option is the reduction.
struct LossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
};
/// Returns |input - target|. The gradient is 0 where the difference is 0.
Tensor l1_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
/// Returns (input - target)^2.
Tensor mse_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
/// Returns max(0, 1 - t x) for scores x and targets t. The gradient is 0 where t x is 1. Throws
/// Error for targets other than -1 and 1. Cortes & Vapnik 1995.
Tensor hinge_loss(const Tensor& scores, const Tensor& targets, const LossOptions& options = {});

struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  double beta = 1;                        ///< the distance at which the loss becomes linear
};
/// Returns d^2 / (2 beta) where d < beta, else d - beta/2, with d = |input - target|. With beta = 0
/// this is l1_loss. Throws Error if beta is negative or not finite. Girshick 2015, arXiv
/// 1504.08083, equation 3.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options = {});

struct MultiMarginLossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  double margin = 1;          ///< how far the true class's score should exceed the others
  int p = 1;                  ///< exponent, 1 or 2
  Tensor class_weights = {};  ///< a factor per true class, (C); 1 if undefined
};
/// Returns the multi-class margin loss of scores x (..., C), w_t/C sum_{c != t} max(0, margin - x_t
/// + x_c)^p. The true classes t are `targets` (...) int64, and w is options.class_weights.
/// Reduction::mean divides by the number of examples. Throws Error if a target is outside [0, C).
/// This is torch.nn.MultiMarginLoss.
Tensor multi_margin_loss(const Tensor& x, const Tensor& targets,
                         const MultiMarginLossOptions& options = {});

struct BCEOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  Tensor weights = {};  ///< a factor per element, broadcast to the input; 1 if undefined
};
/// Returns -(t log p + (1-t) log(1-p)) for probabilities p and targets t, multiplied by `weights`.
/// Each logarithm is clamped to at least -100. Reduction::mean divides by the number of elements,
/// not by the sum of the weights. Throws Error if p is NaN or outside [0, 1]. For logits use
/// binary_cross_entropy_with_logits, which stays accurate where p would round to 0 or 1.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const BCEOptions& options = {});
struct BCEWithLogitsOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  Tensor weights = {};  ///< a factor per element, broadcast to the logits; 1 if undefined
  /// Factor w of the term t log sigmoid(x), for logits x and targets t. Broadcast to the logits; 1
  /// if undefined. With w = (number of negatives) / (number of positives), positives and negatives
  /// have the same total weight.
  Tensor positive_weights = {};
};
/// Returns -(w t log sigmoid(x) + (1-t) log(1 - sigmoid(x))) for logits x, targets t and w =
/// positive_weights, multiplied by `weights`. Large |x| cause no overflow. Where x is infinite and
/// sigmoid(x) equals t, the loss is 0, not NaN. Reduction::mean divides by the number of elements,
/// not by the sum of the weights.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BCEWithLogitsOptions& options = {});

}  // namespace gradus
