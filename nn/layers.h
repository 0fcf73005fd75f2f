#pragma once
// The basic layers. Names, defaults and initialisation are PyTorch's.

#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/nn/module.h"

namespace gradus::nn {

struct LinearOptions {
  bool bias = true;
};
/// act(x W^T + b): (..., in) -> (..., out).
struct Linear : Module {
  const Tensor weight, bias;  ///< (out, in); (out) or undefined
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  /// With parameters that exist already, such as an embedding's that is tied to the output.
  explicit Linear(const Tensor& weight, const Tensor& bias = {});
  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {
    return linear(x, weight, bias, activation);
  }
};

/// Rows of a table by ids: (...) int64 -> (..., dim).
struct Embedding : Module {
  const Tensor weight;  ///< (count, dim)
  Embedding(int64_t count, int64_t dim);
  Tensor operator()(const Tensor& ids) const;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool bias = true;
};
/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis.
struct LayerNorm : Module {
  const Tensor weight, bias;  ///< (dim); (dim) or undefined
  double eps;
  explicit LayerNorm(int64_t dim, const LayerNormOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

/// In training mode: drops each element with probability p and scales the others by 1/(1-p).
struct Dropout {
  double p;
  explicit Dropout(double p = 0.5);
  Tensor operator()(const Tensor& x) const;
};

struct MLPOptions {
  int64_t hidden = 0;  ///< 0: 4 dim
  Activation activation = Activation::gelu;
  bool bias = true;
  double dropout = 0;  ///< of the output
};
/// The transformer's feed-forward layer: proj(act(fc(x))), (..., dim) -> (..., dim).
struct MLP : Module {
  Linear fc, proj;
  Activation activation;
  Dropout dropout;
  explicit MLP(int64_t dim, const MLPOptions& options = {});
  Tensor operator()(const Tensor& x) const {
    return dropout(feed_forward(x, fc.weight, fc.bias, activation, proj.weight, proj.bias));
  }
};

}  // namespace gradus::nn
