#pragma once
// Resizes images, (..., H, W) -> (..., H', W'): pooling and interpolation.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct MaxPool2dOptions {
  Size2d stride = 0;    ///< 0 means the size of the kernel
  Size2d padding = 0;   ///< pixels per side, at most half of the kernel; the maximum ignores them
  Size2d dilation = 1;  ///< distance between neighbouring elements of a window
};
/// Returns the maximum of each window of `kernel` pixels. The output has height
///   H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, and width W' likewise.
/// The maximum is NaN if the window contains a NaN. The gradient flows to the first occurrence of
/// the maximum, or to the last NaN. Throws Error if a window is larger than the padded image, or if
/// the dilation is larger than the image along an axis where the kernel is larger than 1.
Tensor max_pool2d(const Tensor& x, Size2d kernel, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2d stride = 0;              ///< 0 means the size of the kernel
  Size2d padding = 0;             ///< zeros added on each side, at most half of the kernel
  bool count_include_pad = true;  ///< whether the mean also counts pixels of the padding
};
/// Returns the mean of each window. Sizes and errors are those of max_pool2d without dilation.
Tensor avg_pool2d(const Tensor& x, Size2d kernel, const AvgPool2dOptions& options = {});
/// Returns an image of `size` whose pixels are the means of windows of x. Along an axis resized
/// from n to m pixels, window i covers the pixels from floor(i n / m) up to but excluding
/// ceil((i + 1) n / m).
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d size);

/// How interpolate() computes a pixel of the result: as a copy of one pixel of x, or by linear
/// interpolation between the four pixels of x around it.
enum class Interpolation { nearest, bilinear };
struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;  ///< how pixels are computed
  /// For bilinear only: if true, aligns the centres of the corner pixels of x and the result; if
  /// false, the edges of the two images. With nearest, true throws Error.
  bool align_corners = false;
};
/// Returns x resized to `size`, as in PyTorch. Along an axis resized from n to m pixels, nearest
/// copies pixel floor(i r) to pixel i, where r = n / m. Both r and i r are rounded to float32, so
/// floor(i r) may differ from floor(i n / m) by 1. Along each axis, bilinear interpolates between
/// the two nearest pixel centres; beyond the outermost centre it copies the outermost pixel.
/// Neither mode antialiases when the image shrinks.
Tensor interpolate(const Tensor& x, Size2d size, const InterpolateOptions& options = {});

}  // namespace gradus
