#pragma once
// Convolution of images (N, C, H, W).

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct Conv2dOptions {
  Size2d stride = 1;    ///< distance between neighbouring windows
  Size2d padding = 0;   ///< zeros added on each side
  Size2d dilation = 1;  ///< distance between neighbouring elements of a window
  int64_t groups = 1;   ///< number of channel groups, each with its own filters
};

/// Returns y with y[n, o, i, j] = bias[o] + sum_{c,u,v} weight[o, c, u, v] x[n, c, i s + u d - p, j
/// s + v d - p] for stride s, dilation d and padding p. c runs over the channels of o's group, and
/// x is 0 outside its edges. Shapes: x (N, C, H, W), weight (O, C / groups, h, w), bias (O) or
/// undefined -> (N, O, H', W'), with H' = floor((H + 2 p - d (h - 1) - 1) / s) + 1 and W' likewise.
/// Filters are not flipped, as usual in deep learning (LeCun et al. 1998). Throws Error for other
/// shapes, for stride, dilation or groups below 1, for padding below 0, and if a window is larger
/// than the padded image.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

}  // namespace gradus
