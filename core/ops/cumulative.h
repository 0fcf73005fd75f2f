#pragma once
// Cumulative sums and products.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

///@{
/// Returns the cumulative sum x_0 + ... + x_i (product x_0 ... x_i) along dim. For bool the result
/// is int64. Gradients are correct even where elements are 0. Throws Error if an int64 result
/// overflows.
Tensor cumsum(const Tensor& x, Axis dim);
Tensor cumprod(const Tensor& x, Axis dim);
///@}

}  // namespace gradus
