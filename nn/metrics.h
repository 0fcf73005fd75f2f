#pragma once
// How good predictions are. Nothing here has a gradient.

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

struct AccuracyOptions {
  int64_t ignore_index = -100;  ///< targets with this value count for nothing
};
/// The fraction of rows of logits (..., C) whose largest entry (the first, if several) stands at
/// the target: targets class indices int64 (...). A row with a NaN is wrong. NaN where no target
/// counts.
double accuracy(const Tensor& logits, const Tensor& targets, const AccuracyOptions& options = {});

}  // namespace gradus::nn
