#pragma once
// Rotary positions. Su et al. 2021, arXiv 2104.09864, equation 34.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Turns each pair of neighbours (x_2i, x_2i+1) of the first `heads` heads by the angle of their
/// place, whose sine and cosine stand side by side in `positions`, and leaves the other heads:
/// x (..., T, N, D), D even, positions (T, D) as nn::sinusoidal_positions makes them, x's dtype ->
/// x's shape. The product of a turned query and a turned key depends on how far they are apart and
/// not on where they are. No gradient goes to `positions`. (Some libraries turn x_i and x_i+D/2
/// instead: their weights' rows have another order.)
Tensor rotary(const Tensor& x, const Tensor& positions, int64_t heads);

}  // namespace gradus
