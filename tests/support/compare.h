#pragma once
// Compares tensors with each other and with numbers, and catches error messages.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gradus/core/ops/ops.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::testing {

/// The elements of a tensor in row-major order.
using Values = std::vector<double>;
inline Values values(const Tensor& x) { return x.to_vector<double>(); }

/// Returns the largest |a - b| / (1 + |b|) over all elements. For two equal elements or two NaNs,
/// the quotient counts as 0. If it is NaN for any other reason, it counts as infinity. Returns
/// infinity if shapes or dtypes differ, or if only one tensor is defined. Returns 0 if neither is
/// defined.
inline double difference(const Tensor& a, const Tensor& b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!a.defined() || !b.defined()) return a.defined() == b.defined() ? 0 : infinity;
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return infinity;
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double d = std::abs(x[i] - y[i]) / (1 + std::abs(y[i]));
    worst = std::isnan(d) ? infinity : std::max(worst, d);
  }
  return worst;
}

/// Returns the largest |a - b| / (1 + |b|), where b has the shape of a and the elements `numbers`
/// in row-major order.
inline double difference(const Tensor& a, const std::vector<double>& numbers) {
  return difference(a.to(float64), from_data(numbers, a.shape()));
}

inline double tolerance(Dtype dtype) { return dtype == float64 ? 1e-10 : 1e-5; }

/// Returns the message of the Error that the call throws, or "" if it throws none.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Returns the gradients of sum(f(inputs) * dy) with respect to the floating inputs, followed by
/// f(inputs). dy is random, but the same in each call: after calling f, this function seeds the
/// thread's random generator.
inline std::vector<Tensor> output_and_gradients(const std::function<Tensor(std::vector<Tensor>)>& f,
                                                std::vector<Tensor> inputs) {
  std::vector<Tensor> leaves, wanted;
  for (const Tensor& x : inputs) {
    leaves.push_back(x.defined() ? x.detach() : x);
    if (!x.defined() || !is_floating(x.dtype())) continue;
    leaves.back().requires_grad_();
    wanted.push_back(leaves.back());
  }
  const Tensor y = f(leaves);
  manual_seed(99);
  const Tensor dy = randn(y.shape(), float64).to(y.dtype());
  std::vector<Tensor> results = grad({y}, wanted, {.grad_outputs = {dy}});
  results.push_back(y.detach());
  return results;
}

/// Returns the largest difference() between the outputs of f and g, and between their gradients, on
/// the same inputs.
inline double difference(const std::function<Tensor(std::vector<Tensor>)>& f,
                         const std::function<Tensor(std::vector<Tensor>)>& g,
                         const std::vector<Tensor>& inputs) {
  const auto a = output_and_gradients(f, inputs), b = output_and_gradients(g, inputs);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, difference(a[i], b[i]));
  return worst;
}

}  // namespace gradus::testing
