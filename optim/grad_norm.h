#pragma once
// The global norm of gradients, and gradient clipping.

#include "gradus/core/files/safetensors.h"

namespace gradus::optim {

/// Returns the global norm of the gradients: the square root of the sum of all squared elements,
/// summed in double precision in a fixed order. Parameters without a gradient are skipped.
double grad_norm(const std::vector<Tensor>& params);

/// Scales the gradients by the factor min(1, max_norm / (norm + 1e-6)), where norm is their global
/// norm before scaling, and returns norm. Unless the factor is 1, each gradient is replaced by a
/// new tensor. All gradients become NaN if the norm is NaN, or if both the norm and max_norm are
/// infinite. If only the norm is infinite, the factor is 0: infinite elements become NaN, and all
/// others become zero. A factor below the smallest normal number of the gradients' dtype, 1.2e-38
/// for float32, also counts as 0. Throws Error unless max_norm > 0. Optimizer::step with
/// max_grad_norm clips within the update instead and leaves the gradients unchanged.
double clip_grad_norm(const std::vector<Tensor>& params, double max_norm);

namespace internal {

/// Returns the global norm of these gradients, which must be contiguous.
double norm_of(const std::vector<Tensor>& gradients);
/// Returns the factor by which clipping multiplies gradients of this norm: at most 1, or NaN.
double clip_factor(double norm, double max_norm);
/// Throws Error unless max_norm > 0. The message begins with `op`.
void check_max_norm(const char* op, double max_norm);
/// Throws Error unless eps >= 0 and finite. The message begins with `op`.
void check_eps(const char* op, double eps);
/// Throws Error if one of these contiguous parameters is listed twice or shares memory with
/// another. The message begins with `op` and names both.
void check_apart(const char* op, const std::vector<Tensor>& params);
/// Throws Error if `state` contains a count below 0 or above 2^53. The counts are the elements of
/// each int64 tensor called `name`, with or without a prefix that ends in a dot, for example "step"
/// or "Muon.step". The message begins with `op`.
void check_counts(const char* op, const NamedTensors& state, const std::string& name);

}  // namespace internal

}  // namespace gradus::optim
