#pragma once
// The basic layers. Names, defaults and initialisation are PyTorch's.

#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/nn/module.h"

namespace gradus::nn {

struct LinearOptions {
  bool bias = true;  ///< add a bias
};
/// act(x W^T + b). Nothing else multiplies by the weight than the three functions below, so a packed,
/// quantised or low-rank weight would be handled here only.
struct Linear : Module {
  const Tensor weight, bias;  ///< (out, in); (out) or undefined
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  /// With existing parameters: tied to an embedding, for example.
  explicit Linear(const Tensor& weight, const Tensor& bias = {});
  /// (..., in) -> (..., out).
  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const;
  /// Output features [begin, end) only: (..., in) -> (..., end - begin).
  Tensor rows(const Tensor& x, int64_t begin, int64_t end) const;
  /// Of inputs and outputs.
  Dtype dtype() const { return weight.dtype(); }
};
/// second(act(first(x))) as one op, which keeps one hidden tensor for backward instead of two.
Tensor feed_forward(const Tensor& x, const Linear& first, Activation activation,
                    const Linear& second);

/// Rows of a table by ids: (...) int64 -> (..., dim).
struct Embedding : Module {
  const Tensor weight;  ///< (count, dim)
  Embedding(int64_t count, int64_t dim);
  Tensor operator()(const Tensor& ids) const;
};

/// LayerNorm's or RMSNorm's.
enum class NormKind { layer, rms };
/// A norm over the last axis: weight times (x - mean) / sqrt(var + eps) + bias, or of the kind rms
/// x / sqrt(mean(x^2) + eps). What LayerNorm and RMSNorm have in common, for layers that take
/// either.
struct Norm : Module {
  const Tensor weight, bias;  ///< (dim); (dim) or undefined
  double eps;                 ///< added to the variance, or to the mean square
  NormKind kind;              ///< of what is taken off and divided by
  Norm(NormKind kind, int64_t dim, double eps, bool bias);
  Tensor operator()(const Tensor& x) const;
};

struct LayerNormOptions {
  double eps = 1e-5;  ///< added to the variance
  bool bias = true;   ///< whether there is one; a weight there is
};
/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis.
struct LayerNorm : Norm {
  explicit LayerNorm(int64_t dim, const LayerNormOptions& options = {})
      : Norm(NormKind::layer, dim, options.eps, options.bias) {}
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axis. Zhang & Sennrich 2019, arXiv 1910.07467.
struct RMSNorm : Norm {
  template <std::same_as<bool> B>
  RMSNorm(int64_t dim, B eps_) = delete;
  explicit RMSNorm(int64_t dim, double eps_ = 1e-6) : Norm(NormKind::rms, dim, eps_, false) {}
};

struct BatchNormOptions {
  double eps = 1e-5;      ///< added to the variance
  double momentum = 0.1;  ///< the share of a batch in the running statistics
  bool affine = true;     ///< whether there are weight and bias
};
/// In training mode batch_norm of x (N, C, ...) by its own mean and variance, with which the running
/// ones move on (the variance unbiased, as PyTorch's); in evaluation mode by the running ones. There
/// is no num_batches_tracked.
struct BatchNorm : Module {
  const Tensor weight, bias, running_mean, running_var;  ///< (C); weight and bias or undefined
  double eps, momentum;                                  ///< see BatchNormOptions
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};
///@{
/// BatchNorm is of any number of axes, as it is.
using BatchNorm1d = BatchNorm;  // of any number of axes, as it is
using BatchNorm2d = BatchNorm;
///@}

/// Layer norm of each of `groups` groups of channels of x (N, C, ...).
struct GroupNorm : Module {
  const Tensor weight, bias;  ///< (C)
  int64_t groups;             ///< of channels
  double eps;                 ///< added to the variance
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const { return group_norm(x, groups, weight, bias, eps); }
};

/// In training mode: drops each element with probability p and scales the others by 1/(1-p).
struct Dropout {
  double p;  ///< of a number becoming 0
  explicit Dropout(double p = 0.5);
  Tensor operator()(const Tensor& x) const;
};

struct MLPOptions {
  int64_t hidden = 0;                        ///< 0: 4 dim
  Activation activation = Activation::gelu;  ///< between fc and proj
  bool gated = false;         ///< fc gives twice the hidden size, and its halves are act(a) b
  bool bias = true;           ///< in fc and in proj
  double dropout = 0;         ///< of the output
  double hidden_dropout = 0;  ///< of the hidden numbers, behind the activation
};
/// The transformer's feed-forward layer: proj(act(fc(x))), (..., dim) -> (..., dim).
struct MLP : Module {
  Linear fc, proj;                  ///< dim -> hidden (twice that if gated), and hidden -> dim
  Activation activation;            ///< between them
  bool gated;                       ///< act(a) b of fc's halves
  Dropout dropout, hidden_dropout;  ///< of proj's output, and of what it reads
  explicit MLP(int64_t dim, const MLPOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

struct SwiGLUOptions {
  int64_t hidden = 0;  ///< 0: 8/3 dim, rounded up to a multiple of 8: as many parameters as an MLP
  bool bias = false;   ///< in both linear layers
  double dropout = 0;  ///< of the output
};
/// proj(silu(a) b) with [a, b] = fc(x). Shazeer 2020, arXiv 2002.05202, equation 6.
struct SwiGLU : MLP {
  explicit SwiGLU(int64_t dim, const SwiGLUOptions& options = {});
  /// The default hidden size.
  static int64_t hidden_size(int64_t dim);
};

}  // namespace gradus::nn
