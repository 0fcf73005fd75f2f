#pragma once
// Initialisers: new tensors for param(). Shapes are those of the weights: (out, in) for a matrix,
// (out, in, height, width, ...) for a convolution; fan_in is in * height * width ..., fan_out
// likewise. All draw from the thread's generator.

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn::init {

/// `shape`, if a parameter can have it. Throws Error, opening with `op`, on a size below 1 and on
/// too many elements.
Shape parameter_shape(const char* op, const Shape& shape);

/// Uniform in [low, high).
Tensor uniform(const Shape& shape, double low, double high);
/// Normal with the given mean and standard deviation.
Tensor normal(const Shape& shape, double mean = 0, double std = 1);
/// Normal, but limited to [low, high] (not clamped: numbers outside are never drawn).
Tensor trunc_normal(const Shape& shape, double mean = 0, double std = 1, double low = -2,
                    double high = 2);

/// Uniform within sqrt(6 / ((1 + a^2) fan_in)). a is the negative slope of a leaky ReLU: 0 for
/// ReLU; the default, sqrt(5), is torch.nn.Linear's and gives 1/sqrt(fan_in). He et al. 2015, arXiv
/// 1502.01852.
Tensor kaiming_uniform(const Shape& shape, double a = 2.23606797749978969641);
/// Normal with standard deviation sqrt(2 / ((1 + a^2) fan_in)).
Tensor kaiming_normal(const Shape& shape, double a = 0);
/// Uniform within gain sqrt(6 / (fan_in + fan_out)). Glorot & Bengio 2010.
Tensor xavier_uniform(const Shape& shape, double gain = 1);
/// Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)).
Tensor xavier_normal(const Shape& shape, double gain = 1);
/// Uniform within 1/sqrt(fan_in), as PyTorch's biases; `fan_in` is that of the bias's weight.
Tensor uniform_fan_in(const Shape& shape, int64_t fan_in);

/// While it lives, this thread's initialisers draw nothing and give zeros: for a model whose
/// weights are about to be loaded. They throw Error once they have been asked for more than
/// `numbers` in all.
class Skip : core::ModeScope {
 public:
  explicit Skip(int64_t numbers = INT64_MAX);
  ~Skip();
  /// Whether one lives.
  static bool active() { return core::modes().skip_init; }

 private:
  int64_t before_;  // what is left to an outer one
};

}  // namespace gradus::nn::init
