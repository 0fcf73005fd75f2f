#pragma once
// Initialisers. Most come in two forms: a function that returns a new float32 tensor, and a
// function that returns an Initialiser for Module::param(). `shape` is the shape of the parameter.
// Random values come from the calling thread's generator.
//
// Functions that compute fan_in or fan_out expect the shape of a weight, (out, in, ...): (out, in)
// for a matrix, (out, in, height, width) for a convolution of images. With k the product of the
// sizes after `in` (1 for a matrix), fan_in is in * k and fan_out is out * k. These functions throw
// Error if the shape has fewer than 2 axes or a size of 0.

#include <functional>

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// A function that returns a new parameter of the given shape. If no function below fits, write a
/// lambda, for example [](const Shape& shape) { return init::normal(shape, 0, 0.02); }
using Initialiser = std::function<Tensor(const Shape& shape)>;

namespace init {

///@{
/// Draws values uniformly from `low` to `high`. Throws Error unless low <= high, and low, high and
/// high - low are finite in float32.
Tensor uniform(const Shape& shape, double low, double high);
Initialiser uniform(double low, double high);
///@}
/// Draws normal values with the given mean and standard deviation. Throws Error unless both are
/// finite and std >= 0.
Tensor normal(const Shape& shape, double mean = 0, double std = 1);
/// Returns an Initialiser that draws normal values with mean 0 and standard deviation 1.
Initialiser normal();
/// Draws values from the normal distribution truncated to [low, high], without clamping. `low` and
/// `high` are values, not multiples of `std`. Throws Error unless mean, std, low and high are
/// finite, std > 0 and low < high. Also throws Error if the interval is more than about 36 std away
/// from the mean.
Tensor trunc_normal(const Shape& shape, double mean = 0, double std = 1, double low = -2,
                    double high = 2);

///@{
/// Draws values uniformly from [-b, b) with b = sqrt(6 / ((1 + a^2) fan_in)), where a is the
/// negative slope of a leaky ReLU (0 for ReLU). The default a = sqrt(5), which torch.nn.Linear
/// uses, gives b = 1/sqrt(fan_in). He et al. 2015, arXiv 1502.01852.
Tensor kaiming_uniform(const Shape& shape, double a = 2.23606797749978969641);
Initialiser kaiming_uniform();
///@}
///@{
/// Draws normal values with mean 0 and standard deviation sqrt(2 / ((1 + a^2) fan_in)), where a is
/// the negative slope of a leaky ReLU. The default a = 0 is for ReLU.
Tensor kaiming_normal(const Shape& shape, double a = 0);
Initialiser kaiming_normal();
///@}
///@{
/// Draws values uniformly from [-b, b) with b = gain sqrt(6 / (fan_in + fan_out)). Glorot & Bengio
/// 2010.
Tensor xavier_uniform(const Shape& shape, double gain = 1);
Initialiser xavier_uniform();
///@}
///@{
/// Draws normal values with mean 0 and standard deviation gain sqrt(2 / (fan_in + fan_out)).
Tensor xavier_normal(const Shape& shape, double gain = 1);
Initialiser xavier_normal();
///@}
///@{
/// Draws values uniformly from [-b, b) with b = 1/sqrt(fan_in), as PyTorch does for biases. Pass
/// the fan_in of the same layer's weight. Throws Error unless fan_in > 0.
Tensor uniform_fan_in(const Shape& shape, int64_t fan_in);
Initialiser uniform_fan_in(int64_t fan_in);
///@}

}  // namespace init

}  // namespace gradus::nn
