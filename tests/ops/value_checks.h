#pragma once
// Checks of values and gradients for tests that do not use the table of op_table.h.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "gradus/core/core.h"

namespace gradus::testing {

/// Checks that `got` has the given shape and, in row-major order, the expected elements. Each
/// element may have a relative error of `tolerance`. NaN equals NaN.
inline void check_values(const Tensor& got, const Shape& shape, const std::vector<double>& expected,
                         double tolerance = 1e-9) {
  CHECK(got.shape() == shape);
  const auto values = got.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    INFO("element " << i << ": " << values[i] << ", expected " << expected[i]);
    const bool same =
        values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]));
    const bool close = std::isfinite(expected[i]) &&
                       std::abs(values[i] - expected[i]) <= tolerance * std::abs(expected[i]);
    CHECK((same || close));
  }
}

inline Tensor matrix() { return tensor({{1, -2, 3}, {0.5, 4, -1}}, float64); }

/// Checks the gradient of f at x, and the gradient of this gradient, with gradcheck() and
/// gradgradcheck().
template <class F>
void check_gradients(const Tensor& x, const F& f) {
  const TensorFunction g = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{f(in[0])};
  };
  const Tensor leaf = x.detach();
  leaf.requires_grad_();
  const GradcheckResult first = gradcheck(g, {leaf}), second = gradgradcheck(g, {leaf});
  INFO(first.message << second.message);
  CHECK((first && second));
}

/// Returns a random float64 tensor that is not contiguous: its axes are stored in reverse order,
/// and its last axis consists of every second element of a longer axis.
inline Tensor strided(const Shape& shape) {
  Shape longer = shape;
  std::reverse(longer.begin(), longer.end());
  longer[0] *= 2;
  Shape order;
  for (int i = shape.size() - 1; i >= 0; --i) order.push_back(i);
  return randn(longer, float64).slice(0, 0, INT64_MAX, 2).permute(order);
}

}  // namespace gradus::testing
