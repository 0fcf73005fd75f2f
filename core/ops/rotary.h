#pragma once
// Rotary position embedding. Su et al. 2021, arXiv 2104.09864, equation 34.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Rotates each pair (x_2i, x_2i+1) of the first `heads` heads by an angle that depends on i and on
/// the position, and leaves the other heads unchanged: x (..., T, N, D), with T positions, N heads
/// and even D -> the same shape. positions (T, D) has x's dtype and gets no gradient. Columns 2i
/// and 2i+1 hold the sine and the cosine of the angle of pair i, as returned by
/// nn::sinusoidal_positions. With these angles, the dot product of a rotated query and a rotated
/// key depends on their positions only through the difference. (Some libraries rotate the pairs
/// (x_i, x_i+D/2) instead, so the rows of their query and key weights are in a different order.)
Tensor rotary(const Tensor& x, const Tensor& positions, int64_t heads);

}  // namespace gradus
