#pragma once
// Convolution of images, (N, C, H, W).

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct Conv2dOptions {
  Size2d stride = 1;    ///< distance between windows
  Size2d padding = 0;   ///< zeros on each side
  Size2d dilation = 1;  ///< distance between the elements of a window
  int64_t groups = 1;   ///< groups of channels, each convolved with its own filters
};

/// Convolution of images: y[n, o, i, j] = bias[o] + sum_{c, u, v} weight[o, c, u, v] x[n, c, i s +
/// u d - p, j s + v d - p], x being 0 beyond its edges: x (N, C, H, W), weight (O, C / groups, h,
/// w), bias (O) or undefined -> (N, O, H', W'), H' = floor((H + 2 p - d (h - 1) - 1) / s) + 1. The
/// filters are not flipped, as everywhere in deep learning (LeCun et al. 1998). Throws Error for
/// other shapes, for stride, dilation or groups below 1, for padding below 0, and for a window
/// larger than the padded image.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

}  // namespace gradus
