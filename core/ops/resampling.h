#pragma once
// Resizing of images, (..., H, W) -> (..., H', W'): pooling and interpolation.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct MaxPool2dOptions {
  Size2d stride = 0;    ///< 0: the kernel's size
  Size2d padding = 0;   ///< on each side, at most half of the kernel; padding is never the maximum
  Size2d dilation = 1;  ///< distance between the elements of a window
};
/// The maximum of each window: H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) +
/// 1, W' likewise. The gradient goes to the first maximum; a window with NaN gives NaN. Throws
/// Error if a window is larger than the padded image.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2d stride = 0;              ///< 0: the kernel's size
  Size2d padding = 0;             ///< zeros on each side, at most half of the kernel
  bool count_include_pad = true;  ///< include them in the mean
};
/// The mean of each window; shapes as for max_pool2d.
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});
/// Average pooling to an image of `size`: window i of m along an axis of n covers [floor(i n / m),
/// ceil((i + 1) n / m)).
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

/// The nearest pixel, or the mean of four pixels weighted by distance.
enum class Interpolation { nearest, bilinear };
struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;  ///< see interpolate
  /// For bilinear: aligns the centres of the corner pixels rather than the image's edges.
  bool align_corners = false;
};
/// Resizes x to `size`, choosing pixels as PyTorch does: nearest takes pixel floor(i n / m);
/// bilinear interpolates between the two nearest pixel centres along each axis, without
/// antialiasing.
Tensor interpolate(const Tensor& x, Size2d size, const InterpolateOptions& options = {});

}  // namespace gradus
