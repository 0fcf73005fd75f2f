#pragma once
// Cumulative sums and products.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

///@{
/// Returns the cumulative sum (product) along dim: element i is the sum (product) of x_0 to x_i.
/// For bool the result is int64. Gradients are correct even where elements are 0. Throws Error if
/// an int64 result overflows.
Tensor cumsum(const Tensor& x, Axis dim);
Tensor cumprod(const Tensor& x, Axis dim);
///@}

}  // namespace gradus
