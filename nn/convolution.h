#pragma once
// Convolution layers for images (N, C, H, W). Names, defaults and initialisation follow PyTorch's.

#include "gradus/core/ops/convolution.h"
#include "gradus/nn/module.h"

namespace gradus::nn {

struct Conv2dLayerOptions {
  Size2d stride = 1, padding = 0, dilation = 1;  ///< see Conv2dOptions
  int64_t groups = 1;                            ///< number of channel groups
  bool bias = true;                              ///< add a bias per output channel
};
/// conv2d with learned filters: (N, in, H, W) -> (N, out, H', W').
struct Conv2d : Module {
  const Tensor weight, bias;  ///< (out, in / groups, h, w), kernel h x w; (out) or undefined
  Conv2dOptions options;      ///< passed to conv2d
  Conv2d(int64_t in, int64_t out, Size2d kernel, const Conv2dLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, bias, options); }
  /// Draws the weight from kaiming_normal, which keeps the variance through a ReLU that follows (He
  /// et al. 2015), and zeros the bias.
  void initialise_for_relu();
};

}  // namespace gradus::nn
