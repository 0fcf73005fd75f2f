#pragma once
// Checking gradients against central differences.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct GradcheckOptions {
  double eps = 1e-6;   ///< the step to either side of an element
  double atol = 1e-5;  ///< absolute tolerance
  double rtol = 1e-3;  ///< relative tolerance, a factor of |numeric|
};
/// The type of the functions to check, from inputs to outputs.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// The result of a check.
struct GradcheckResult {
  bool ok = true;       ///< whether all gradients agree
  std::string message;  ///< if not: the first difference (input, element, analytic, numeric)
  /// Equals `ok`.
  explicit operator bool() const { return ok; }
};

/// Compares the gradient of every floating output of `f` with respect to every input that requires
/// grad with the central difference (f(x + eps) - f(x - eps)) / (2 eps), element by element. They
/// agree if |analytic - numeric| <= atol + rtol |numeric|. Inputs that require grad must be
/// float64, and f must depend on nothing but its inputs.
GradcheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// Like gradcheck, for second derivatives: checks the gradients of f's gradients, with random
/// output gradients. It does not check the first derivatives themselves; gradcheck does.
GradcheckResult gradgradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace gradus
