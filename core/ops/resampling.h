#pragma once
// Resizing images, (..., H, W) -> (..., H', W'): pooling and interpolation.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct MaxPool2dOptions {
  Size2d stride = 0;    ///< 0: the kernel's size
  Size2d padding = 0;   ///< on each side, at most half of the kernel; the maximum ignores it
  Size2d dilation = 1;  ///< distance between a window's elements
};
/// The maximum of each window; the output has
///   H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, and W' accordingly.
/// NaN if the window has a NaN. The gradient flows to the maximum's first occurrence. Throws Error
/// where a window is larger than the padded image.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2d stride = 0;              ///< 0: the kernel's size
  Size2d padding = 0;             ///< zeros on each side, at most half of the kernel
  bool count_include_pad = true;  ///< whether padding counts in the mean
};
/// The mean of each window; sizes and errors as for max_pool2d.
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});
/// Averages windows into an image of `size`: along an axis of length n, window i of m covers
/// floor(i n / m) to ceil((i + 1) n / m), exclusive.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

/// How values between pixels are computed: the nearest pixel's, or a mean of four weighted by
/// distance.
enum class Interpolation { nearest, bilinear };
struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;  ///< see interpolate
  /// For bilinear: align the centres of the corner pixels instead of the image's edges.
  bool align_corners = false;
};
/// x resized to `size`, as in PyTorch. Along an axis resized from n to m pixels, nearest copies
/// pixel floor(i n / m) to pixel i; bilinear interpolates between the two nearest pixel centres,
/// without antialiasing when the image shrinks.
Tensor interpolate(const Tensor& x, Size2d size, const InterpolateOptions& options = {});

}  // namespace gradus
