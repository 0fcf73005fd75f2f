#pragma once
// Evaluation metrics, without gradients.

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

struct AccuracyOptions {
  int64_t ignore_index = -100;  ///< targets with this value are ignored
};
/// Returns the fraction of rows of logits (..., C) whose argmax equals the target. On ties, argmax
/// is the first index. targets (...) are int64 class indices. A row with a NaN counts as wrong.
/// Returns NaN if every target is ignored.
double accuracy(const Tensor& logits, const Tensor& targets, const AccuracyOptions& options = {});

}  // namespace gradus::nn
