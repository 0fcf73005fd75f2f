#pragma once
// Muon: momentum with orthogonalised updates, for the matrices of hidden layers.

#include <memory>

#include "gradus/core/files/named_tensors.h"
#include "gradus/optim/combined.h"
#include "gradus/optim/newton_schulz.h"
#include "gradus/optim/optimizers.h"

namespace gradus::optim {

struct MuonOptions {
  double lr = 0.02;         ///< learning rate
  double momentum = 0.95;   ///< decay of the running mean m of g
  bool nesterov = true;     ///< orthogonalise (1 - momentum) g + momentum m instead of m
  double weight_decay = 0;  ///< each step multiplies p by 1 - lr * weight_decay
  bool cautious = false;    ///< decay only the elements that the update moves towards 0
  int64_t steps = 5;        ///< number of Newton-Schulz steps
  /// Use the polynomials of Amsel et al. 2025, "The Polar Express", arXiv 2505.16932, instead of
  /// Jordan's, and divide the matrix by (sum of s^4)^(1/4) over its singular values s instead of by
  /// its Frobenius norm. 3 or 4 steps then do what 5 of Jordan's do.
  bool polar_express = false;
  /// Orthogonalise and scale each attention head's queries, keys and values as three matrices of
  /// their own (Zhang et al. 2026, arXiv 2605.08933), at less cost.
  bool per_head = false;
  /// Round the operands of the Newton-Schulz products of float32 parameters to bfloat16, as Jordan
  /// does, except in a few products that need more precision. This changes an update by a few
  /// percent, or with 3 steps of the Polar Express by up to a fifth. Has no effect unless
  /// has_bfloat16_products().
  bool bfloat16 = false;
};

/// For each matrix p (rows, columns) with gradient g:
///   m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m, or m if not `nesterov`;
///   p = (1 - lr weight_decay) p - lr sqrt(max(1, rows / columns)) newton_schulz(u).
/// All directions of a matrix move by about the same amount, including directions with small
/// gradients. Embeddings, output layers, biases and norms need another optimiser, see
/// CombinedOptimizer. Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
/// networks"; `cautious`: Chen et al. 2025, arXiv 2510.12402. The bits of the result do not depend
/// on the number of threads. step() throws Error, with nothing changed, if a gradient contains a
/// NaN or an infinity.
class Muon : public GroupOptimizer {
 public:
  /// Throws Error, naming the parameter, if a parameter has fewer than 2 axes or no rows, if its
  /// `rows` are given but are not positive numbers that add up to param.size(0), or if its `heads`
  /// are given but are not one positive divisor of each of its `rows`.
  Muon(std::vector<StackedMatrices> params, const MuonOptions& options = {});

 private:
  struct Matrix;
  /// Throws Error if the gradient contains a NaN or an infinity, which would spread to the whole
  /// matrix.
  void check_gradient(size_t index, const Tensor& grad) const override;
  void update(std::span<const Update> updates, double grad_scale) override;
  template <class T>
  void update_matrix(const Matrix& matrix, double grad_scale) const;

  MuonOptions options_;
  std::vector<std::vector<int64_t>> rows_;  // per parameter: number of rows of each matrix
};

struct MuonAndAdamWOptions {
  MuonOptions muon = {};  ///< for the hidden matrices
  /// Options for all other parameters.
  AdamWOptions adamw = {.lr = 3e-3, .beta2 = 0.99, .weight_decay = 0};
};
/// Returns Muon for a module's hidden matrices and AdamW for its other parameters, as one
/// optimiser:
///   const auto optimizer = optim::muon_and_adamw(model.parameters(), model.hidden_matrices());
/// Its learning rate is that of AdamW; setting it, for example by a schedule, changes Muon's in
/// proportion. AdamW decays only parameters of rank >= 2. Throws Error if there is no hidden matrix
/// or no other parameter that requires grad, or if the learning rate of AdamW is 0.
std::unique_ptr<CombinedOptimizer> muon_and_adamw(const std::vector<Tensor>& params,
                                                  std::vector<StackedMatrices> hidden,
                                                  const MuonAndAdamWOptions& options = {});

}  // namespace gradus::optim
