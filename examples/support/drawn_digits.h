#pragma once
#include <cstdint>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Images of digits and their labels.
struct Digits {
  Tensor images;  ///< (n, height, width) float32 in [0, 1]
  Tensor labels;  ///< (n) int64 in [0, 10)
};

/// Returns n digits in a dot-matrix font, 28 x 28, slightly rotated, scaled and shifted, with
/// noise. They serve as training data without a download. Image i depends only on (seed, i).
Digits drawn_digits(int64_t n, uint64_t seed);

}  // namespace gradus
