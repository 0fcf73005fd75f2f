#pragma once
// Convolution layers for images (N, C, H, W) and sequences (N, C, L), and norms over channels.
// Names, defaults and initialisation follow PyTorch.

#include "gradus/core/ops/convolution.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/nn/module.h"

namespace gradus::nn {

struct Conv2dLayerOptions {
  Size2d stride = 1, padding = 0, dilation = 1;  ///< see Conv2dOptions
  int64_t groups = 1;                            ///< number of channel groups
  bool bias = true;                              ///< add a bias per output channel
  bool hidden = true;  ///< let optim::Muon update the weight; set to false in an input layer
};
/// Applies conv2d with learned filters: (N, in, H, W) -> (N, out, H', W').
struct Conv2d : Module {
  const Tensor weight, bias;  ///< weight (out, in / groups, h, w) for kernels h x w; bias (out) or
                              ///< undefined
  Conv2dOptions options;      ///< passed to conv2d
  Conv2d(int64_t in, int64_t out, Size2d kernel, const Conv2dLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, bias, options); }
  /// Draws the weight from init::kaiming_normal and sets the bias to 0. If a ReLU follows each
  /// layer, activations then keep their scale from layer to layer (He et al. 2015).
  void initialise_for_relu();
};

struct Conv1dLayerOptions {
  int64_t stride = 1, padding = 0, dilation = 1;  ///< see Conv1dOptions
  int64_t groups = 1;                             ///< number of channel groups
  bool bias = true;                               ///< add a bias per output channel
  bool hidden = true;  ///< let optim::Muon update the weight; set to false in an input layer
};
/// Applies conv1d with learned filters: (N, in, L) -> (N, out, L').
struct Conv1d : Module {
  const Tensor weight, bias;  ///< weight (out, in / groups, kernel); bias (out) or undefined
  Conv1dOptions options;      ///< passed to conv1d
  Conv1d(int64_t in, int64_t out, int64_t kernel, const Conv1dLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv1d(x, weight, bias, options); }
};

struct ConvTranspose2dLayerOptions {
  Size2d stride = 1, padding = 0, output_padding = 0;  ///< see ConvTranspose2dOptions
  int64_t groups = 1;                                  ///< number of channel groups
  bool bias = true;                                    ///< add a bias per output channel
  Size2d dilation = 1;                                 ///< see ConvTranspose2dOptions
  bool hidden = true;  ///< let optim::Muon update the weight; set to false in an output layer
};
/// Applies conv_transpose2d with learned filters: (N, in, H, W) -> (N, out, H', W').
struct ConvTranspose2d : Module {
  const Tensor weight, bias;       ///< weight (in, out / groups, h, w) for kernels h x w; bias
                                   ///< (out) or undefined
  ConvTranspose2dOptions options;  ///< passed to conv_transpose2d
  ConvTranspose2d(int64_t in, int64_t out, Size2d kernel,
                  const ConvTranspose2dLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const { return conv_transpose2d(x, weight, bias, options); }
};

struct BatchNormOptions {
  double eps = 1e-5;      ///< added to the variance
  double momentum = 0.1;  ///< weight of a new batch in the running statistics
  bool affine = true;     ///< scale by a weight and add a bias
};
/// Batch normalisation of x (N, C, ...). In training mode, normalises by the mean and variance of
/// the batch, and updates the running statistics with the batch's mean and, as in PyTorch, its
/// unbiased variance. An empty batch does not update the running statistics, nor does backward when
/// it recomputes activations (see recompute()). Throws Error in training mode if a channel has only
/// one element. In evaluation mode, normalises by the running mean and variance. Unlike in PyTorch,
/// the state dict has no num_batches_tracked.
struct BatchNorm : Module {
  const Tensor weight, bias, running_mean, running_var;  ///< (C); weight and bias may be undefined
  double eps, momentum;                                  ///< the options of these names
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};
///@{
/// PyTorch's names for BatchNorm, which accepts any x of two or more axes.
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
///@}

/// Group normalisation of x (N, C, ...): normalises each group of channels of each example by the
/// mean and variance of its elements; see group_norm().
struct GroupNorm : Module {
  const Tensor weight, bias;  ///< (C)
  int64_t groups;             ///< number of channel groups
  double eps;                 ///< added to the variance
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const { return group_norm(x, groups, weight, bias, eps); }
};

}  // namespace gradus::nn
