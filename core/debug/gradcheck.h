#pragma once
// Checking gradients against central differences.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct GradcheckOptions {
  double eps = 1e-6;   ///< half of the step: differences are taken over 2 eps
  double atol = 1e-5;  ///< what they may differ by whatever their size
  double rtol = 1e-3;  ///< and, more than that, by this part of the numeric one
};
/// What is checked: tensors of inputs, each output a tensor.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// What a check found: `ok`, or the first difference in words (input, element, analytic, numeric).
struct GradcheckResult {
  bool ok = true;       ///< whether all agree
  std::string message;  ///< empty if they do
  /// Whether all agree.
  explicit operator bool() const { return ok; }
};

/// Compares the gradients of every floating output of `f` with respect to every input that requires
/// grad with central differences (f(x+eps) - f(x-eps)) / 2 eps, element by element:
/// |analytic - numeric| <= atol + rtol |numeric|. Inputs that require grad must be float64. f must
/// be a function of its inputs alone.
GradcheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// The same for the gradients of f's gradients, with random output gradients. It takes the gradients
/// as they are: whether they are f's, gradcheck says.
GradcheckResult gradgradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace gradus
