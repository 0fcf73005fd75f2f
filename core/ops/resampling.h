#pragma once
// Resizing images, (..., H, W) -> (..., H', W'): pooling and interpolation.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct MaxPool2dOptions {
  Size2d stride = 0;    ///< 0 stands for the kernel's size
  Size2d padding = 0;   ///< on each side, at most half of the kernel; the maximum ignores it
  Size2d dilation = 1;  ///< distance between a window's elements
};
/// The maximum of each window of `kernel` pixels; the output has height
///   H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, and width W' likewise.
/// The maximum is NaN if the window has a NaN. The gradient flows to the maximum's first
/// occurrence. Throws Error where a window is larger than the padded image.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2d stride = 0;              ///< 0 stands for the kernel's size
  Size2d padding = 0;             ///< zeros on each side, at most half of the kernel
  bool count_include_pad = true;  ///< whether the mean divides by the padding's pixels, too
};
/// The mean of each window; sizes and errors as for max_pool2d without dilation.
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});
/// Averages windows into an image of `size`: along an axis of length n, window i of m covers the
/// pixels from floor(i n / m) up to but excluding ceil((i + 1) n / m).
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

/// How values between pixels are computed: as the nearest pixel's value, or as the mean of the four
/// nearest, weighted by distance.
enum class Interpolation { nearest, bilinear };
struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;  ///< explained at interpolate()
  /// With mode bilinear: whether the centres of the corner pixels of x and of the result are
  /// aligned, instead of the edges of the images.
  bool align_corners = false;
};
/// x resized to `size`, as in PyTorch. Along an axis resized from n to m pixels, nearest copies
/// pixel floor(i r) to pixel i, with r = n / m and the product rounded to float32, so that it may be
/// the pixel before floor(i n / m); bilinear interpolates between the two nearest pixel centres,
/// without antialiasing when the image shrinks.
Tensor interpolate(const Tensor& x, Size2d size, const InterpolateOptions& options = {});

}  // namespace gradus
