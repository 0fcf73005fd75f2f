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
  double momentum = 0.95;   ///< decay of the running mean of the gradient, in [0, 1)
  bool nesterov = true;     ///< orthogonalise (1 - momentum) g + momentum m instead of m, where g
                            ///< is the gradient and m its running mean
  double weight_decay = 0;  ///< each step scales the parameter by 1 - lr * weight_decay
  bool cautious = false;    ///< apply weight decay only to elements that the update moves towards 0
  int64_t steps = 5;        ///< number of Newton-Schulz steps, from 1 to 100
  /// Orthogonalise with the polynomials of Amsel et al. 2025, "The Polar Express", arXiv
  /// 2505.16932, instead of the polynomial of newton_schulz(). Also divide each matrix, with
  /// singular values s, by (sum of s^4)^(1/4) instead of by its Frobenius norm. 3 or 4 steps are
  /// then about as accurate as 5 steps of newton_schulz().
  bool polar_express = false;
  /// Orthogonalise and scale the rows of each attention head as a separate matrix, in the weights
  /// of queries, keys and values for which StackedMatrices::heads is given. Separate matrices take
  /// less time than one matrix of all heads. Zhang et al. 2026, arXiv 2605.08933.
  bool per_head = false;
  /// In the matrix products of the Newton-Schulz steps, round the operands to bfloat16, as Jordan
  /// et al. 2024 do. Applies only to float32 parameters; a few products that need more precision
  /// stay in float32. The rounding changes an update by a few percent or, with 3 steps and
  /// polar_express, by up to a fifth. Has no effect if has_bfloat16_products(), in
  /// core/debug/build_info.h, returns false.
  bool bfloat16 = false;
};

/// Muon updates each matrix p (rows, columns) with gradient g and running mean m of g:
///   m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m, or m if not `nesterov`;
///   p = (1 - lr weight_decay) p - lr sqrt(max(1, rows / columns)) newton_schulz(u).
/// A parameter of more than 2 axes counts as a matrix of size(0) rows. An update has about the same
/// size along all of its singular directions, including those with small gradients. Embeddings,
/// output layers, biases and norms need another optimiser: muon_and_adamw() updates them with
/// AdamW. The bits of the result do not depend on the number of threads. step() throws Error, with
/// nothing changed, if a gradient contains a NaN or an infinity. Jordan et al. 2024, "Muon: An
/// optimizer for hidden layers in neural networks"; `cautious`: Chen et al. 2025, arXiv 2510.12402.
class Muon : public GroupOptimizer {
 public:
  /// Each parameter must have at least 2 axes and at least one row. If StackedMatrices::rows is not
  /// empty, its numbers must be positive and add up to param.size(0). If StackedMatrices::heads is
  /// not empty, it must contain one positive number per matrix, which divides the matrix's number
  /// of rows. Otherwise throws Error; the message names the parameter.
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
  std::vector<std::vector<int64_t>> rows_;  // per parameter: number of rows of each matrix or head
};

struct MuonAndAdamWOptions {
  MuonOptions muon = {};  ///< options of Muon, for the matrices of hidden layers
  /// Options of AdamW, for all parameters other than the matrices of hidden layers.
  AdamWOptions adamw = {.lr = 3e-3, .beta2 = 0.99, .weight_decay = 0};
};
/// Returns an optimiser that updates `hidden`, the matrices of a module's hidden layers, with Muon
/// and all other tensors of `params` with AdamW:
///   const auto optimizer = optim::muon_and_adamw(model.parameters(), model.hidden_matrices());
/// lr() returns AdamW's learning rate. set_lr() sets AdamW's learning rate and changes Muon's in
/// proportion. AdamW applies weight decay only to parameters of rank >= 2. Throws Error if no
/// hidden matrix requires grad, if no other parameter does, or if the learning rate of AdamW is 0.
std::unique_ptr<CombinedOptimizer> muon_and_adamw(const std::vector<Tensor>& params,
                                                  std::vector<StackedMatrices> hidden,
                                                  const MuonAndAdamWOptions& options = {});

}  // namespace gradus::optim
