#pragma once
// Evaluation metrics, without gradients.

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

struct AccuracyOptions {
  int64_t ignore_index = -100;  ///< targets with this value are ignored
};
/// Returns the fraction of rows of logits (..., C), C >= 1, whose argmax equals the target. On
/// ties, argmax is the first index. targets (...) are int64 class indices. Rows whose target is
/// options.ignore_index are not counted. A row with a NaN counts as wrong. Returns NaN if no row is
/// counted. Throws Error if a target is neither in [0, C) nor ignore_index.
double accuracy(const Tensor& logits, const Tensor& targets, const AccuracyOptions& options = {});

}  // namespace gradus::nn
