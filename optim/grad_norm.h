#pragma once
// The global norm of gradients, and clipping by it.

#include "gradus/core/files/safetensors.h"

namespace gradus::optim {

/// The gradients' global norm: sqrt of the sum of all squared elements, summed in double precision
/// in a fixed order. Parameters without a gradient are skipped.
double grad_norm(const std::vector<Tensor>& params);

/// Scales the gradients by min(1, max_norm / (norm + 1e-6)) and returns the norm before scaling.
/// Optimizer::step does the same, without writing the gradients, if given max_grad_norm.
double clip_grad_norm(const std::vector<Tensor>& params, double max_norm);

namespace internal {

/// grad_norm of these gradients, each contiguous.
double norm_of(const std::vector<Tensor>& gradients);
/// What clipping multiplies gradients of this norm by: at most 1, or NaN.
double clip_factor(double norm, double max_norm);
/// Throws Error, opening with `op`, unless max_norm > 0.
void check_max_norm(const char* op, double max_norm);

}  // namespace internal

}  // namespace gradus::optim
