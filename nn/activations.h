#pragma once
// Activations and other ops as layers without parameters, for Sequential.

#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/resampling.h"

namespace gradus::nn {

/// Computes relu(x).
struct ReLU {
  Tensor operator()(const Tensor& x) const { return relu(x); }
};
/// Computes tanh(x).
struct Tanh {
  Tensor operator()(const Tensor& x) const { return tanh(x); }
};
/// Computes sigmoid(x).
struct Sigmoid {
  Tensor operator()(const Tensor& x) const { return sigmoid(x); }
};
/// Computes silu(x).
struct SiLU {
  Tensor operator()(const Tensor& x) const { return silu(x); }
};
/// Computes gelu(x) by the exact formula. For GPT-2's approximation by tanh, pass the function
/// gelu_tanh to Sequential.
struct GELU {
  Tensor operator()(const Tensor& x) const { return gelu(x); }
};
/// Computes leaky_relu(x): x where x > 0, else slope * x.
struct LeakyReLU {
  double slope;  ///< factor for x < 0
  explicit LeakyReLU(double slope_ = 0.01) : slope(slope_) {}
  Tensor operator()(const Tensor& x) const { return leaky_relu(x, slope); }
};
/// Computes softmax(x, dim).
struct Softmax {
  int64_t dim;  ///< the axis along which the result sums to 1
  explicit Softmax(int64_t dim_ = -1) : dim(dim_) {}
  Tensor operator()(const Tensor& x) const { return softmax(x, dim); }
};
/// Merges the axes from `start` to `end` into one. By default, all axes but the batch axis are
/// merged.
struct Flatten {
  int64_t start, end;  ///< first and last axis, both included
  explicit Flatten(int64_t start_ = 1, int64_t end_ = -1) : start(start_), end(end_) {}
  Tensor operator()(const Tensor& x) const { return x.flatten(start, end); }
};
/// A layer that computes op(x, size, options) for images x (..., H, W), where `op` pools or resizes
/// images. For example: MaxPool2d(3, {.stride = 2, .padding = 1}), Upsample(64).
template <auto op, class Options>
struct ImageLayer {
  Size2d size;      ///< size of the pooling window, or of Upsample's output
  Options options;  ///< options of the op, for example MaxPool2dOptions
  explicit ImageLayer(Size2d size_, const Options& options_ = {})
      : size(size_), options(options_) {}
  Tensor operator()(const Tensor& x) const { return op(x, size, options); }
};
///@{
/// Layers that compute max_pool2d, avg_pool2d and interpolate.
using MaxPool2d = ImageLayer<max_pool2d, MaxPool2dOptions>;
using AvgPool2d = ImageLayer<avg_pool2d, AvgPool2dOptions>;
using Upsample = ImageLayer<interpolate, InterpolateOptions>;
///@}
/// Computes adaptive_avg_pool2d(x, size): resizes images (..., H, W) to `size` by averaging
/// windows.
struct AdaptiveAvgPool2d {
  Size2d size;  ///< size of the output
  explicit AdaptiveAvgPool2d(Size2d size_) : size(size_) {}
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool2d(x, size); }
};
/// Returns x.
struct Identity {
  Tensor operator()(const Tensor& x) const { return x; }
};

}  // namespace gradus::nn
