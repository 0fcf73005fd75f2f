#pragma once
// Activations and other ops as parameter-free layers, for Sequential.

#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/resampling.h"

namespace gradus::nn {

/// relu(x).
struct ReLU {
  Tensor operator()(const Tensor& x) const { return relu(x); }
};
/// tanh(x).
struct Tanh {
  Tensor operator()(const Tensor& x) const { return tanh(x); }
};
/// sigmoid(x).
struct Sigmoid {
  Tensor operator()(const Tensor& x) const { return sigmoid(x); }
};
/// silu(x).
struct SiLU {
  Tensor operator()(const Tensor& x) const { return silu(x); }
};
/// gelu(x), exact. For GPT-2's approximation, pass the function gelu_tanh to Sequential instead.
struct GELU {
  Tensor operator()(const Tensor& x) const { return gelu(x); }
};
/// x where x > 0, else slope * x.
struct LeakyReLU {
  double slope;  ///< for x < 0
  explicit LeakyReLU(double slope_ = 0.01) : slope(slope_) {}
  Tensor operator()(const Tensor& x) const { return leaky_relu(x, slope); }
};
/// softmax(x, dim).
struct Softmax {
  int64_t dim;  ///< the axis that sums to 1
  explicit Softmax(int64_t dim_ = -1) : dim(dim_) {}
  Tensor operator()(const Tensor& x) const { return softmax(x, dim); }
};
/// Merges axes start to end into one; by default all but the batch axis.
struct Flatten {
  int64_t start, end;  ///< first and last axis, inclusive
  explicit Flatten(int64_t start_ = 1, int64_t end_ = -1) : start(start_), end(end_) {}
  Tensor operator()(const Tensor& x) const { return x.flatten(start, end); }
};
/// An op on images (..., H, W) as a layer, with its window or output size and its options, such as
/// MaxPool2d(3, {.stride = 2, .padding = 1}), Upsample(64).
template <auto op, class Options>
struct ImageLayer {
  Size2d size;      ///< of the window or output
  Options options;  ///< of the op
  explicit ImageLayer(Size2d size_, const Options& options_ = {})
      : size(size_), options(options_) {}
  Tensor operator()(const Tensor& x) const { return op(x, size, options); }
};
///@{
/// See max_pool2d, avg_pool2d, interpolate.
using MaxPool2d = ImageLayer<max_pool2d, MaxPool2dOptions>;
using AvgPool2d = ImageLayer<avg_pool2d, AvgPool2dOptions>;
using Upsample = ImageLayer<interpolate, InterpolateOptions>;
///@}
/// adaptive_avg_pool2d(x, size).
struct AdaptiveAvgPool2d {
  Size2d size;  ///< of the output
  explicit AdaptiveAvgPool2d(Size2d size_) : size(size_) {}
  Tensor operator()(const Tensor& x) const { return adaptive_avg_pool2d(x, size); }
};
/// Returns x.
struct Identity {
  Tensor operator()(const Tensor& x) const { return x; }
};

}  // namespace gradus::nn
