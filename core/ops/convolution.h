#pragma once
// Convolution of images, (N, C, H, W), and sequences, (N, C, L).

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct Conv2dOptions {
  Size2d stride = 1;    ///< distance between neighbouring windows
  Size2d padding = 0;   ///< zeros added on each side
  Size2d dilation = 1;  ///< distance between neighbouring elements of a window
  int64_t groups = 1;   ///< number of channel groups, each with its own filters
};

/// Returns y with
///   y[n, o, i, j] = bias[o] + sum_{c,u,v} weight[o, c, u, v] x[n, c, i s + u d - p, j s + v d - p]
/// for stride s, dilation d and padding p. c runs over the channels of o's group, and `weight`
/// counts them from 0 in each group. x is 0 outside its edges. Shapes: x (N, C, H, W), weight
/// (O, C / groups, h, w), bias (O) or undefined -> (N, O, H', W'), with
/// H' = floor((H + 2 p - d (h - 1) - 1) / s) + 1 and W' likewise. Filters are not flipped, as usual
/// in deep learning (LeCun et al. 1998). Throws Error if shapes or dtypes do not match, if the
/// weight is empty, if groups is not a positive divisor of C and O, if stride or dilation is
/// outside [1, 2^30] or padding outside [0, 2^30], and if the padded image is smaller than a window
/// or too large.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

struct Conv1dOptions {
  int64_t stride = 1;    ///< distance between neighbouring windows
  int64_t padding = 0;   ///< zeros added on each side
  int64_t dilation = 1;  ///< distance between neighbouring elements of a window
  int64_t groups = 1;    ///< number of channel groups, each with its own filters
};

/// Returns conv2d along one axis: x (N, C, L), weight (O, C / groups, l), bias (O) or undefined ->
/// (N, O, L').
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

struct ConvTranspose2dOptions {
  Size2d stride = 1;          ///< distance in the result between the windows of neighbouring pixels
  Size2d padding = 0;         ///< pixels that are cut off on each side of the result
  Size2d output_padding = 0;  ///< extra rows and columns at the bottom and right of the result
  int64_t groups = 1;         ///< number of channel groups, each with its own filters
  Size2d dilation = 1;        ///< distance in the result between neighbouring elements of a filter
};

/// Returns y, the transposed convolution of x, which enlarges images (Zeiler et al. 2010). If x is
/// the gradient of conv2d's output, y is the gradient of conv2d's input, plus a bias. Channel o of
/// y starts at bias[o]. Then each pixel of x adds a multiple of the filter to its window:
///   y[n, o, i s + u d - p, j s + v d - p] += weight[c, o, u, v] x[n, c, i, j]
/// for stride s, dilation d and padding p. o runs over the output channels of c's group, and
/// `weight` counts them from 0 in each group. Shapes: x (N, C, H, W), weight (C, O / groups, h, w),
/// bias (O) or undefined -> (N, O, H', W'), with
/// H' = (H - 1) s - 2 p + d (h - 1) + output_padding + 1 and W' likewise. Throws Error if shapes or
/// dtypes do not match, if the weight is empty, if an option is outside conv2d's limits, if
/// output_padding is negative or not below the larger of stride and dilation, if H, W, H' or W' is
/// below 1, and if the result is too large.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

}  // namespace gradus
