#pragma once
// Images in another size, (..., H, W) -> (..., H', W'): pooling and interpolation.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct MaxPool2dOptions {
  Size2d stride = 0;    ///< 0: the kernel's size
  Size2d padding = 0;   ///< on each side, half of the kernel at most; what is there never wins
  Size2d dilation = 1;  ///< distance between a window's places
};
/// The largest number of each window:
/// H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, W' likewise. Its gradient
/// goes to the first of equals; NaN wins. Throws Error where a window is larger than the padded
/// image.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2d stride = 0;              ///< 0: the kernel's size
  Size2d padding = 0;             ///< zeros on each side, half of the kernel at most
  bool count_include_pad = true;  ///< whether they count in the mean
};
/// The mean of each window, likewise.
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});
/// Means of windows that make an image of `size`: the i-th of m along an axis of n goes from
/// floor(i n / m) to ceil((i + 1) n / m).
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

/// How pixels between pixels are made: the nearest's, or a mean of four by their distance.
enum class Interpolation { nearest, bilinear };
struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;  ///< see interpolate
  /// Of bilinear: the corner pixels' centres stay where they are, rather than the image's edges.
  bool align_corners = false;
};
/// x as an image of `size`, with PyTorch's choice of pixels: nearest takes floor(i n / m); bilinear
/// weighs the two pixels whose centres lie on either side, along each axis, without any smoothing
/// where the image shrinks.
Tensor interpolate(const Tensor& x, Size2d size, const InterpolateOptions& options = {});

}  // namespace gradus
