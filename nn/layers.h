#pragma once
// Basic layers. Layers that also exist in PyTorch have PyTorch's names, defaults and
// initialisation, except that the default eps of RMSNorm is 1e-6.

#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/nn/module.h"

namespace gradus::nn {

struct LinearOptions {
  bool bias = true;    ///< add a bias
  bool hidden = true;  ///< let optim::Muon update the weight; set to false in an output layer
  std::vector<int64_t> rows = {};   ///< number of rows of each matrix stacked in the weight, see
                                    ///< StackedMatrices; empty means that the weight is one matrix
  std::vector<int64_t> heads = {};  ///< number of attention heads in each matrix stacked in the
                                    ///< weight; empty means that no matrix is divided into heads
};
/// Computes activation(x weight^T + bias). If add_lora() gave the layer a low-rank update, adds the
/// output of the update before the activation.
///
/// For maintainers: to() may convert the weight to bfloat16 or int8. All functions that multiply by
/// the weight must support these dtypes: operator(), rows(), feed_forward() and the functions for
/// low-rank updates in nn/finetune/lora.cpp.
struct Linear : Module {
  const Tensor weight, bias;  ///< (out, in); (out) or undefined
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  /// Makes a layer from existing parameters, for example a weight shared with an embedding, and
  /// makes them require grad. Throws Error, with both unchanged, unless `weight` (out, in) and
  /// `bias`, (out) or undefined, are leaves of the same dtype, float32 or float64, and not
  /// expanded. Module::hidden_matrices() does not list this weight.
  explicit Linear(const Tensor& weight, const Tensor& bias = {});
  /// Applies the layer to x: (..., in) -> (..., out).
  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const;
  /// Computes output features [begin, end) only: (..., in) -> (..., end - begin). Throws Error
  /// unless 0 <= begin < end <= out.
  Tensor rows(const Tensor& x, int64_t begin, int64_t end) const;
  /// Returns the dtype of inputs and outputs: float32 if the weight is bfloat16 or int8, else the
  /// dtype of the weight.
  Dtype dtype() const { return is_compressed(weight.dtype()) ? float32 : weight.dtype(); }
};
/// Returns second(activation(first(x))) or, if `is_gated`, second(activation(a) * b), where a and b
/// are the halves of first(x). If `is_gated` is false and neither layer has a LoRA update, runs as
/// one op, which saves a single hidden tensor for backward.
Tensor feed_forward(const Tensor& x, const Linear& first, Activation activation,
                    const Linear& second, bool is_gated = false);

/// Looks up rows of a table by id: (...) int64 -> (..., dim). Throws Error if an id is outside [0,
/// count).
struct Embedding : Module {
  const Tensor weight;  ///< (count, dim)
  Embedding(int64_t count, int64_t dim);
  Tensor operator()(const Tensor& ids) const;
};

/// The kind of a Norm: LayerNorm or RMSNorm.
enum class NormKind { layer, rms };
/// Normalises over the last axis, for layers that accept either kind of norm. NormKind::layer
/// computes (x - mean) / sqrt(var + eps) * weight + bias. NormKind::rms computes x / sqrt(mean(x^2)
/// + eps) * weight, and ignores the constructor's `bias`.
struct Norm : Module {
  const Tensor weight, bias;  ///< (dim); (dim) or undefined
  double eps;                 ///< added to the variance or mean square; >= 0
  NormKind kind;              ///< layer or rms
  Norm(NormKind kind, int64_t dim, double eps, bool bias);
  Tensor operator()(const Tensor& x) const;
};

struct LayerNormOptions {
  double eps = 1e-5;  ///< added to the variance
  bool bias = true;   ///< add a bias (the weight is always present)
};
/// Computes (x - mean) / sqrt(var + eps) * weight + bias over the last axis.
struct LayerNorm : Norm {
  explicit LayerNorm(int64_t dim, const LayerNormOptions& options = {})
      : Norm(NormKind::layer, dim, options.eps, options.bias) {}
};

/// Computes x / sqrt(mean(x^2) + eps) * weight over the last axis. Zhang & Sennrich 2019, arXiv
/// 1910.07467.
struct RMSNorm : Norm {
  template <std::same_as<bool> B>
  RMSNorm(int64_t dim, B eps_) = delete;
  explicit RMSNorm(int64_t dim, double eps_ = 1e-6) : Norm(NormKind::rms, dim, eps_, false) {}
};

/// In training mode, sets each element to 0 with probability p, and multiplies the remaining
/// elements by 1/(1-p). In evaluation mode, returns x.
struct Dropout {
  double p;  ///< probability of dropping an element, from 0 to 1
  explicit Dropout(double p = 0.5);
  Tensor operator()(const Tensor& x) const;
};

struct MLPOptions {
  int64_t hidden = 0;                        ///< hidden size; 0 means 4 * dim
  Activation activation = Activation::gelu;  ///< activation of the hidden layer
  bool gated = false;                        ///< hidden layer is activation(a) * b, where a and b
                                             ///< are the halves of fc(x)
  bool bias = true;                          ///< add biases in both linear layers
  double dropout = 0;                        ///< dropout probability of the output
  double hidden_dropout = 0;                 ///< dropout probability of the hidden layer
};
/// The feed-forward layer of a transformer: (..., dim) -> (..., dim). Computes
/// proj(activation(fc(x))) or, if gated, proj(activation(a) * b), where a and b are the halves of
/// fc(x).
struct MLP : Module {
  Linear fc, proj;                  ///< fc: dim -> hidden, or dim -> 2 * hidden if gated; proj:
                                    ///< hidden -> dim
  Activation activation;            ///< activation of the hidden layer
  bool gated;                       ///< whether the hidden layer is gated
  Dropout dropout, hidden_dropout;  ///< dropout of the output; dropout of the hidden layer
  explicit MLP(int64_t dim, const MLPOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

struct SwiGLUOptions {
  int64_t hidden = 0;  ///< hidden size; 0 means SwiGLU::hidden_size(dim)
  bool bias = false;   ///< add biases in both linear layers
  double dropout = 0;  ///< dropout probability of the output
};
/// A gated MLP: computes proj(silu(a) * b), where a and b are the halves of fc(x). Shazeer 2020,
/// arXiv 2002.05202, equation 6.
struct SwiGLU : MLP {
  explicit SwiGLU(int64_t dim, const SwiGLUOptions& options = {});
  /// Returns 8/3 * dim, rounded up to a multiple of 8. With this hidden size the gated MLP has
  /// about as many parameters as an ungated MLP with hidden size 4 * dim.
  static int64_t hidden_size(int64_t dim);
};

}  // namespace gradus::nn
