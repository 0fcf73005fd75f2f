#pragma once
// Resizes images, (..., H, W) -> (..., H', W'): pooling and interpolation.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct MaxPool2dOptions {
  Size2d stride = 0;    ///< distance between neighbouring windows; 0 means the size of the kernel
  Size2d padding = 0;   ///< pixels of -infinity added on each side, at most half the kernel
  Size2d dilation = 1;  ///< distance between neighbouring elements of a window
};
/// Returns the maximum of each window of `kernel` pixels: (..., H, W) -> (..., H', W'), with
///   H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, and W' likewise.
/// The maximum is NaN if the window contains a NaN. The gradient flows to the first occurrence of
/// the maximum, or to the last NaN. Throws Error if a window is larger than the padded image, or if
/// the dilation is larger than the image along an axis where the kernel is larger than 1.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2d stride = 0;              ///< distance between windows; 0 means the size of the kernel
  Size2d padding = 0;             ///< zeros added on each side, at most half of the kernel
  bool count_include_pad = true;  ///< whether the divisor of the mean counts the padding's pixels
};
/// Returns the mean of each window of `kernel` pixels: (..., H, W) -> (..., H', W'), with
///   H' = floor((H + 2 padding - kernel) / stride) + 1, and W' likewise.
/// Throws Error if a window is larger than the padded image, or if H' or W' exceeds 2^24.
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});
/// Returns an image of `size` whose pixels are the means of windows of x. Along an axis resized
/// from n to m pixels, window i covers the pixels from floor(i n / m) up to but excluding
/// ceil((i + 1) n / m). Throws Error unless both numbers of `size` are from 1 to 2^24.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

/// How interpolate() computes a pixel of the result: as a copy of one pixel of x, or by bilinear
/// interpolation between the four nearest pixels of x.
enum class Interpolation { nearest, bilinear };
struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;  ///< how pixels are computed
  /// If true, the centres of the corner pixels of x and of the result coincide. If false, the edges
  /// of the two images coincide. interpolate() throws Error if this is true and `mode` is nearest.
  bool align_corners = false;
};
/// Returns x resized to `size`, as in PyTorch. Along an axis resized from n to m pixels, `nearest`
/// copies pixel floor(i r) of x to pixel i of the result, where r = n / m. Both r and i r are
/// rounded to float32, so floor(i r) may differ from floor(i n / m) by 1. Along each axis,
/// `bilinear` interpolates between the two nearest pixel centres of x; beyond the outermost centre,
/// it copies the outermost pixel. Neither mode antialiases when the image shrinks. Throws Error
/// unless both numbers of `size` are from 1 to 2^24.
Tensor interpolate(const Tensor& x, Size2d size, const InterpolateOptions& options = {});

}  // namespace gradus
