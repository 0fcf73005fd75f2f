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

/// Returns the convolution y of x with the filters `weight`:
///   y[n, o, i, j] = bias[o] + sum_{c,u,v} weight[o, c, u, v] x[n, c, i s + u d - p, j s + v d - p]
/// for stride s, dilation d and padding p. Elements of x beyond its edges count as 0. If there are
/// several groups, c runs only over the channels of x in the group of output channel o. The second
/// index of `weight` then counts from the group's first channel. The shapes are x (N, C, H, W),
/// weight (O, C / groups, h, w), bias (O) or undefined -> (N, O, H', W'), with
/// H' = floor((H + 2 p - d (h - 1) - 1) / s) + 1 and W' likewise. Filters are not flipped, as usual
/// in deep learning (LeCun et al. 1998). Throws Error in these cases:
/// - Shapes or dtypes do not match, or the weight is empty.
/// - groups is not a positive divisor of C and O.
/// - stride or dilation is outside [1, 2^30], or padding is outside [0, 2^30].
/// - The padded image is smaller than a window, or too large.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

struct Conv1dOptions {
  int64_t stride = 1;    ///< distance between neighbouring windows
  int64_t padding = 0;   ///< zeros added on each side
  int64_t dilation = 1;  ///< distance between neighbouring elements of a window
  int64_t groups = 1;    ///< number of channel groups, each with its own filters
};

/// Returns the convolution of x along its last axis: x (N, C, L), weight (O, C / groups, l), bias
/// (O) or undefined -> (N, O, L'), with L' = floor((L + 2 p - d (l - 1) - 1) / s) + 1 for stride s,
/// dilation d and padding p. Bias, groups and errors are as for conv2d.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

struct ConvTranspose2dOptions {
  /// Each pixel of x adds to one window of the result. The stride is the distance between the
  /// windows of neighbouring pixels.
  Size2d stride = 1;
  Size2d padding = 0;         ///< rows and columns that are cut off on each side of the result
  Size2d output_padding = 0;  ///< extra rows and columns at the bottom and right of the result
  int64_t groups = 1;         ///< number of channel groups, each with its own filters
  Size2d dilation = 1;        ///< distance between neighbouring elements of a window of the result
};

/// Returns the transposed convolution y of x, which enlarges images (Zeiler et al. 2010). Without
/// bias, it maps the gradient of a conv2d's output to the gradient of its input, for the same
/// weight. All elements of channel o of y start at bias[o]. Then each pixel of x adds a multiple of
/// each filter to a window of y:
///   y[n, o, i s + u d - p, j s + v d - p] += weight[c, o, u, v] x[n, c, i, j]
/// for stride s, dilation d and padding p. If there are several groups, o runs only over the output
/// channels in the group of channel c. The second index of `weight` then counts from the group's
/// first channel. The shapes are x (N, C, H, W), weight (C, O / groups, h, w), bias (O) or
/// undefined -> (N, O, H', W'), with H' = (H - 1) s - 2 p + d (h - 1) + output_padding + 1 and W'
/// likewise. Throws Error in these cases:
/// - Shapes or dtypes do not match, or the weight is empty.
/// - groups is not a positive divisor of C and O.
/// - stride or dilation is outside [1, 2^30], or padding is outside [0, 2^30].
/// - output_padding is negative, or not below the larger of stride and dilation.
/// - H, W, H' or W' is below 1, or the result is too large.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

}  // namespace gradus
