#pragma once
// Initialisers: functions that return a new tensor and, for Module::param(), functions that return
// an Initialiser. `shape` is a weight's shape: (out, in) for a matrix and (out, in, height, width)
// for a convolution, with any number of axes after `in`; fan_in is in * height * width, fan_out is
// out * height * width. All draw from the thread's generator.

#include <functional>

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// Returns a new parameter of the given shape. Where no function below returns the one you need,
/// write a lambda, such as [](const Shape& shape) { return init::normal(shape, 0, 0.02); }
using Initialiser = std::function<Tensor(const Shape& shape)>;

namespace init {

///@{
/// Uniform in [low, high).
Tensor uniform(const Shape& shape, double low, double high);
Initialiser uniform(double low, double high);
///@}
/// Normal with the given mean and standard deviation.
Tensor normal(const Shape& shape, double mean = 0, double std = 1);
/// Normal with mean 0 and standard deviation 1.
Initialiser normal();
/// Normal, truncated to [low, high]: values outside are never drawn (rather than clamped).
Tensor trunc_normal(const Shape& shape, double mean = 0, double std = 1, double low = -2,
                    double high = 2);

///@{
/// Uniform in [-b, b) with b = sqrt(6 / ((1 + a^2) fan_in)). a is the negative slope of a leaky
/// ReLU: 0 for ReLU; the default, sqrt(5), is torch.nn.Linear's and gives b = 1/sqrt(fan_in). He et
/// al. 2015, arXiv 1502.01852.
Tensor kaiming_uniform(const Shape& shape, double a = 2.23606797749978969641);
Initialiser kaiming_uniform();
///@}
///@{
/// Normal with standard deviation sqrt(2 / ((1 + a^2) fan_in)).
Tensor kaiming_normal(const Shape& shape, double a = 0);
Initialiser kaiming_normal();
///@}
///@{
/// Uniform in [-b, b) with b = gain sqrt(6 / (fan_in + fan_out)). Glorot & Bengio 2010.
Tensor xavier_uniform(const Shape& shape, double gain = 1);
Initialiser xavier_uniform();
///@}
///@{
/// Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)).
Tensor xavier_normal(const Shape& shape, double gain = 1);
Initialiser xavier_normal();
///@}
///@{
/// Uniform in [-b, b) with b = 1/sqrt(fan_in), as PyTorch draws biases. `fan_in` is that of the
/// weight that the bias belongs to.
Tensor uniform_fan_in(const Shape& shape, int64_t fan_in);
Initialiser uniform_fan_in(int64_t fan_in);
///@}

}  // namespace init

}  // namespace gradus::nn
