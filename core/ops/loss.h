#pragma once
// Losses. Reduction::none keeps one loss an example; mean divides as PyTorch's do.

#include "gradus/core/tensor.h"

namespace gradus {

enum class Reduction { mean, sum, none };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;  ///< targets with this value count for nothing
  double label_smoothing = 0;   ///< eps: target (1-eps) onehot + eps/C
  Tensor class_weights = {};    ///< (C) or undefined
};
/// -sum_c target_c log softmax(logits)_c over the last axis. logits (..., C); targets: class
/// indices int64 (...), or probabilities of logits' shape and dtype. Reduction::mean divides by the
/// summed weight of the targets that count (indices), or by the number of examples (probabilities),
/// as PyTorch's does.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
/// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// -(t log sigmoid(x) + (1-t) log(1 - sigmoid(x))), without overflow.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        Reduction reduction = Reduction::mean);

}  // namespace gradus
