#pragma once
#include <cstdint>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Images of digits, and which ones they are.
struct Digits {
  Tensor images;  ///< (n, height, width) float32 in [0, 1]
  Tensor labels;  ///< (n) int64 in [0, 10)
};

/// n digits of a font of dots, 28 x 28, each turned, stretched and moved a little, with noise: what
/// a classifier can learn without a download. Functions of (seed, which) alone.
Digits drawn_digits(int64_t n, uint64_t seed);

}  // namespace gradus
