#pragma once
// Initialisers. Most come in two forms: a function that returns a new tensor, and a function that
// returns an Initialiser for Module::param(). `shape` is the shape of the parameter. Functions that
// compute fan_in or fan_out expect the shape of a weight: (out, in) for a matrix, (out, in, height,
// width) for a convolution of images. Any number of axes may follow `in`. fan_in is `in`, and
// fan_out is `out`, times the sizes of these axes. Random values come from the calling thread's
// generator.

#include <functional>

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// A function that returns a new parameter of the given shape. If no function below fits, write a
/// lambda, for example [](const Shape& shape) { return init::normal(shape, 0, 0.02); }
using Initialiser = std::function<Tensor(const Shape& shape)>;

namespace init {

///@{
/// Values uniform from `low` to `high`.
Tensor uniform(const Shape& shape, double low, double high);
Initialiser uniform(double low, double high);
///@}
/// Normal values with the given mean and standard deviation.
Tensor normal(const Shape& shape, double mean = 0, double std = 1);
/// Normal values with mean 0 and standard deviation 1.
Initialiser normal();
/// Values from the normal distribution truncated to [low, high], drawn by inverting its
/// distribution function, not by clamping.
Tensor trunc_normal(const Shape& shape, double mean = 0, double std = 1, double low = -2,
                    double high = 2);

///@{
/// Values uniform in [-b, b) with b = sqrt(6 / ((1 + a^2) fan_in)), where a is the negative slope
/// of a leaky ReLU (0 for ReLU). The default a = sqrt(5) is that of torch.nn.Linear. It gives
/// b = 1/sqrt(fan_in). He et al. 2015, arXiv 1502.01852.
Tensor kaiming_uniform(const Shape& shape, double a = 2.23606797749978969641);
Initialiser kaiming_uniform();
///@}
///@{
/// Normal values with mean 0 and standard deviation sqrt(2 / ((1 + a^2) fan_in)). a is the slope as
/// in kaiming_uniform(), but 0 by default.
Tensor kaiming_normal(const Shape& shape, double a = 0);
Initialiser kaiming_normal();
///@}
///@{
/// Values uniform in [-b, b) with b = gain sqrt(6 / (fan_in + fan_out)). Glorot & Bengio 2010.
Tensor xavier_uniform(const Shape& shape, double gain = 1);
Initialiser xavier_uniform();
///@}
///@{
/// Normal values with mean 0 and standard deviation gain sqrt(2 / (fan_in + fan_out)).
Tensor xavier_normal(const Shape& shape, double gain = 1);
Initialiser xavier_normal();
///@}
///@{
/// Values uniform in [-b, b) with b = 1/sqrt(fan_in), PyTorch's default for biases. `fan_in` is
/// that of the weight in the same layer.
Tensor uniform_fan_in(const Shape& shape, int64_t fan_in);
Initialiser uniform_fan_in(int64_t fan_in);
///@}

}  // namespace init

}  // namespace gradus::nn
