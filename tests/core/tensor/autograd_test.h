#pragma once
// Helpers for the tests of the autograd graph, the engine and backward rules.

#include <vector>

#include "gradus/core/ops/ops.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/support/compare.h"

namespace gradus::testing {

/// Returns a float64 vector that requires grad.
inline Tensor leaf(std::initializer_list<double> numbers) {
  return tensor(numbers, float64).requires_grad_();
}

/// Returns a copy of x, recorded in the graph as an op with the given name, saved tensors and
/// backward rule.
template <class RuleFn>
Tensor identity(const char* name, const Tensor& x, core::Saves saves, RuleFn rule) {
  Tensor y = x.detach().clone();
  core::record(name, {y}, {x}, saves, rule);
  return y;
}

}  // namespace gradus::testing
