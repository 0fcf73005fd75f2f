#pragma once
#include <cstdint>
#include <string>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Images of digits and their labels.
struct Digits {
  Tensor images;  ///< (n, height, width) float32 in [0, 1]
  Tensor labels;  ///< (n) int64 in [0, 10)
};

/// Returns n digits in a dot-matrix font, 28 x 28, slightly rotated, scaled and shifted, with
/// noise. They serve as training data without a download. Image i depends only on (seed, i) and on
/// `variety`, from 0 to 1, which sets how much rotation, size and position vary.
Digits drawn_digits(int64_t n, uint64_t seed, double variety = 1);

/// Returns digits for training generative models: the training images of `source`, for example
/// "mnist:DIR" (see models::read_images), or 10,000 drawn digits of little variety if `source` is
/// empty. Throws Error if the images cannot be read or are not grey, or if their height or width is
/// not a multiple of four.
Digits read_digits(const std::string& source);

}  // namespace gradus
