#pragma once
// Checks gradients against central differences.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct GradcheckOptions {
  double eps = 1e-6;   ///< the step: added to and subtracted from each element of the inputs
  double atol = 1e-5;  ///< absolute tolerance
  double rtol = 1e-3;  ///< tolerance relative to the absolute value of the central difference
};
/// The type of a function to check: it maps inputs to outputs.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// The result of a check.
struct GradcheckResult {
  bool ok = true;       ///< whether all gradients agree
  std::string message;  ///< if `ok` is false: the first gradient that differs, with both values
  /// Returns `ok`.
  explicit operator bool() const { return ok; }
};

/// Checks the gradients that backward computes for f against central differences. Let g be the
/// gradient of one element of an output with respect to one element x of an input, and
/// c = (f(x + eps) - f(x - eps)) / (2 eps). The check requires a finite c and
/// |g - c| <= atol + rtol |c| for all elements of the float32 and float64 outputs and of the inputs
/// that require grad. f must depend on nothing but its inputs.
///
/// Throws Error if no input requires grad, if an input that requires grad is not float64 or has
/// elements that share memory, or if the outputs' shapes differ between calls of f.
GradcheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// Checks the second derivatives of f: applies gradcheck to the function that computes the
/// gradients of f for random output gradients. Use gradcheck to check the first derivatives. Throws
/// Error in the cases of gradcheck, if no output requires grad, and if an output that requires grad
/// is not float64.
GradcheckResult gradgradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace gradus
