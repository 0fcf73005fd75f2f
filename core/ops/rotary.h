#pragma once
// Rotary position embedding. Su et al. 2021, arXiv 2104.09864, equation 34.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Rotates each pair (x_2i, x_2i+1) of the first `heads` heads by an angle that depends on i and on
/// the position, and leaves the other heads unchanged: x (..., T, N, D) with T positions, N heads
/// and D even -> the same shape. positions (T, D), of x's dtype, holds the sine and then the cosine
/// of each angle, as nn::sinusoidal_positions returns them; it gets no gradient. The dot product of
/// a rotated query and a rotated key depends on their positions only by the difference. (Some
/// libraries rotate (x_i, x_i+D/2) instead; the rows of their weights are in a different order.)
Tensor rotary(const Tensor& x, const Tensor& positions, int64_t heads);

}  // namespace gradus
