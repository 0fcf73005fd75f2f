#pragma once
// Activations and other ops as layers without parameters, for Sequential.

#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"

namespace gradus::nn {

struct ReLU {
  Tensor operator()(const Tensor& x) const { return relu(x); }
};
struct Tanh {
  Tensor operator()(const Tensor& x) const { return tanh(x); }
};
struct Sigmoid {
  Tensor operator()(const Tensor& x) const { return sigmoid(x); }
};
struct SiLU {
  Tensor operator()(const Tensor& x) const { return silu(x); }
};
/// The exact one. GPT-2's approximation: the function gelu_tanh, which Sequential takes as it is.
struct GELU {
  Tensor operator()(const Tensor& x) const { return gelu(x); }
};
/// x where x > 0, else slope x.
struct LeakyReLU {
  double slope;
  explicit LeakyReLU(double slope_ = 0.01) : slope(slope_) {}
  Tensor operator()(const Tensor& x) const { return leaky_relu(x, slope); }
};
struct Softmax {
  int64_t dim;
  explicit Softmax(int64_t dim_ = -1) : dim(dim_) {}
  Tensor operator()(const Tensor& x) const { return softmax(x, dim); }
};
/// Axes [start, end] merged into one; by default all but the batch's.
struct Flatten {
  int64_t start, end;
  explicit Flatten(int64_t start_ = 1, int64_t end_ = -1) : start(start_), end(end_) {}
  Tensor operator()(const Tensor& x) const { return x.flatten(start, end); }
};
struct Identity {
  Tensor operator()(const Tensor& x) const { return x; }
};

}  // namespace gradus::nn
