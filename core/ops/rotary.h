#pragma once
// Rotary position embedding. Su et al. 2021, arXiv 2104.09864, equation 34.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns x with each pair (x_2i, x_2i+1) of its first `heads` heads rotated by an angle that
/// depends on i and on the position. The other heads are unchanged. x and the result are
/// (..., T, N, D), with T positions, N heads and an even D. `positions` (T, D) has x's dtype and
/// gets no gradient. Its columns 2i and 2i+1 contain the sine and the cosine of the angle of pair
/// i. nn::sinusoidal_positions returns such a table. Its angles are proportional to the position.
/// The dot product of a rotated query and a rotated key then depends only on the difference of
/// their positions. (Some libraries rotate the pairs (x_i, x_i+D/2) instead, so the rows of their
/// query and key weights are in a different order.)
Tensor rotary(const Tensor& x, const Tensor& positions, int64_t heads);

}  // namespace gradus
