#pragma once
// Loss functions. Reduction::mean divides by the same number as in PyTorch. The weights of classes
// and of elements cannot require grad. Unless stated otherwise, the input and the target of a loss
// must have the same shape and dtype; they do not broadcast.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// How losses are reduced: to their mean, to their sum, or not at all.
enum class Reduction { mean, sum, none };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  int64_t ignore_index = -100;            ///< class indices with this value are ignored
  /// The smoothing eps, from 0 to 1: each target probability t is replaced by (1 - eps) t + eps/C,
  /// where C is the number of classes. If targets are class indices, t is 1 for the target class
  /// and 0 for all other classes.
  double label_smoothing = 0;
  Tensor class_weights = {};  ///< a factor per class, (C); 1 if undefined
};
/// Returns the cross entropy of each example, by default the mean over all examples:
///   -sum_c t_c log softmax(logits)_c
/// for the C classes c. `logits` is (..., C). `targets` contains class indices, int64 (...), or the
/// probabilities t, of the logits' shape and dtype. For a class index, t_c is 1 for this class and
/// 0 for all other classes. With class weights, each term of the sum is multiplied by the weight of
/// its class. For class indices, Reduction::mean divides by the sum of the target classes' weights,
/// without ignored targets. If this sum is 0, the mean is NaN. For probabilities, Reduction::mean
/// divides by the number of examples. Throws Error if a class index is neither in [0, C) nor
/// ignore_index.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
struct NLLLossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  int64_t ignore_index = -100;            ///< targets with this value are ignored
  Tensor class_weights = {};              ///< a factor per class, (C); 1 if undefined
};
/// Returns -log_probs[t] for each target class t, multiplied by the weight of the class; by
/// default, the mean over all targets. `log_probs` (..., C) is a result of log_softmax, and
/// `targets` (...) contains int64 class indices. Reduction::mean divides by the sum of the target
/// classes' weights, without ignored targets. The mean is NaN if all targets are ignored or have
/// weight 0. Throws Error if a target is neither in [0, C) nor ignore_index. cross_entropy computes
/// log_softmax and this loss in one op.
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NLLLossOptions& options = {});
struct KLDivOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  bool log_target = false;                ///< whether the target contains log-probabilities
};
/// Returns the Kullback-Leibler divergence t (log t - x) of each element, by default the mean over
/// all elements. The input x contains log-probabilities, and the target t contains probabilities.
/// The divergence is 0 where t is 0 and x is finite; the gradient of t is NaN there. With
/// log_target, t contains log-probabilities, and the divergence is e^t (t - x), which is NaN where
/// t is -infinity. PyTorch's "batchmean" is
///   kl_div(input, target, {.reduction = Reduction::sum}) / input.size(0).
Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options = {});

/// Options of losses whose only option is the reduction.
struct LossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
};
/// Returns |input - target| of each element, by default the mean over all elements. The gradient is
/// 0 where the difference is 0.
Tensor l1_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
/// Returns (input - target)^2 of each element, by default the mean over all elements.
Tensor mse_loss(const Tensor& input, const Tensor& target, const LossOptions& options = {});
/// Returns max(0, 1 - t x) for scores x and targets t, by default the mean over all elements. The
/// gradient is 0 where t x is 1. Throws Error for targets other than -1 and 1. Cortes & Vapnik
/// 1995.
Tensor hinge_loss(const Tensor& scores, const Tensor& targets, const LossOptions& options = {});

struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  double beta = 1;                        ///< the |input - target| at which the loss becomes linear
};
/// Returns d^2 / (2 beta) where d = |input - target| is below beta, and d - beta/2 elsewhere; by
/// default, the mean over all elements. With beta = 0 this is l1_loss. Throws Error if beta is
/// negative or not finite. Girshick 2015, arXiv 1504.08083, equation 3.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options = {});

struct MultiMarginLossOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  double margin = 1;          ///< how far the true class's score should exceed all other scores
  int p = 1;                  ///< exponent of each term of the loss, 1 or 2
  Tensor class_weights = {};  ///< a factor of the loss per true class, (C); 1 if undefined
};
/// Returns the multi-class margin loss
///   w_t / C sum_{c != t} max(0, margin - x_t + x_c)^p
/// of scores x (..., C) for the true classes t = `targets` (...), int64; by default, the mean over
/// all examples. w is options.class_weights. The mean divides by the number of examples, not by the
/// sum of the weights. Throws Error if a target is outside [0, C), if p is neither 1 nor 2, or if
/// margin is not finite. The loss is torch.nn.MultiMarginLoss.
Tensor multi_margin_loss(const Tensor& x, const Tensor& targets,
                         const MultiMarginLossOptions& options = {});

struct BCEOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  Tensor weights = {};  ///< a factor per element, broadcast to the input; 1 if undefined
};
/// Returns -(t log p + (1-t) log(1-p)) for probabilities p and targets t, multiplied by
/// options.weights; by default, the mean over all elements. Each logarithm is clamped to at least
/// -100. The mean divides by the number of elements, not by the sum of the weights. Throws Error if
/// p is NaN or outside [0, 1]. For logits, use binary_cross_entropy_with_logits, which stays
/// accurate where p would round to 0 or 1.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const BCEOptions& options = {});
struct BCEWithLogitsOptions {
  Reduction reduction = Reduction::mean;  ///< how the losses are reduced
  Tensor weights = {};  ///< a factor per element, broadcast to the logits; 1 if undefined
  /// A tensor w that multiplies the term t log sigmoid(x) of the loss, for logits x and targets t.
  /// It broadcasts to the logits, and is 1 if undefined. If w is the number of negative targets
  /// divided by the number of positive ones, both kinds have the same total weight.
  Tensor positive_weights = {};
};
/// Returns -(w t log sigmoid(x) + (1-t) log(1 - sigmoid(x))) for logits x, targets t and
/// w = options.positive_weights, multiplied by options.weights; by default, the mean over all
/// elements. Large |x| cause no overflow. Where x is infinite and sigmoid(x) equals t, the loss is
/// 0, not NaN. The mean divides by the number of elements, not by the sum of the weights.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BCEWithLogitsOptions& options = {});

}  // namespace gradus
