#pragma once
// Checks gradients against central differences.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct GradcheckOptions {
  double eps = 1e-6;   ///< added to and subtracted from an element
  double atol = 1e-5;  ///< absolute tolerance
  double rtol = 1e-3;  ///< relative tolerance, a factor of the central difference's magnitude
};
/// The type of a function to check: it maps inputs to outputs.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// The result of a check.
struct GradcheckResult {
  bool ok = true;       ///< whether all gradients agree
  std::string message;  ///< the first gradient that differs, with both values, if `ok` is false
  /// Equals `ok`.
  explicit operator bool() const { return ok; }
};

/// Compares each gradient g that backward computes for f with the central difference c =
/// (f(x + eps) - f(x - eps)) / (2 eps), element by element, for every floating-point output and
/// every input that requires grad. They agree if |g - c| <= atol + rtol |c|. f must depend on
/// nothing but its inputs. Throws Error if no input requires grad, if an input that requires grad
/// is not float64 or has elements that share memory, or if f returns outputs of other shapes in a
/// later call.
GradcheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// Checks f's second derivatives: applies gradcheck to the gradients of f, with random output
/// gradients. It does not check the first derivatives; gradcheck does. Throws Error in the cases of
/// gradcheck, if no output requires grad, and if an output that requires grad is not float64.
GradcheckResult gradgradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace gradus
