#pragma once
// ShardedOptimizer: each rank keeps and updates its share of an optimiser's state.

#include <memory>

#include "gradus/optim/optimizer.h"
#include "gradus/optim/parallel/communicator.h"

namespace gradus::optim {

/// An optimiser with its state divided among the ranks. Each rank updates its share of the
/// parameters and sends them to the other ranks. The result is bit for bit that of the undivided
/// optimiser on one rank. Rajbhandari et al. 2020, "ZeRO", stage 1. All ranks must have the same
/// gradients, for example after DataParallel::backward, and must call step() together. If the
/// update rule of a TensorOptimizer throws on one rank, step() aborts the communicator, and step()
/// on the other ranks throws OtherRankFailed.
class ShardedOptimizer : public Optimizer {
 public:
  /// Assigns each parameter to one rank, so that all ranks update about the same number of
  /// elements. `communicator` must outlive this object. Throws Error if `optimizer` is null or is
  /// already sharded.
  ShardedOptimizer(std::unique_ptr<Optimizer> optimizer, Communicator& communicator);

  std::vector<Tensor> parameters() const override { return optimizer_->parameters(); }
  double lr() const override { return optimizer_->lr(); }
  void set_lr(double lr) override { optimizer_->set_lr(lr); }

  /// Copies the state of all shares to rank 0, where state_dict() then returns it. All ranks must
  /// call gather_state().
  void gather_state();
  /// Returns the state of this rank's share, with undefined tensors for the other shares. The
  /// numbers of updates, "step", are correct only for this share. Exception: on rank 0, between
  /// gather_state() and the next step() or load_state_dict(), returns the whole state, as the
  /// undivided optimiser would.
  NamedTensors state_dict() const override;
  /// Restores the state of this rank's share. All ranks must pass the whole state. Each rank checks
  /// the shapes and dtypes of its own share only, so one rank may throw Error after others have
  /// loaded their shares.
  void load_state_dict(const NamedTensors& state) override;

 private:
  std::vector<Tensor> gradients() const override;
  void check_step() const override { optimizer_->check_step(); }
  void apply(double grad_scale) override;
  void keep_only(const std::set<const void*>& owned) override;
  void share_parameters();

  std::unique_ptr<Optimizer> optimizer_;
  Communicator& communicator_;
  std::vector<std::vector<Tensor>> shares_;  // per rank: the parameters that it updates
  // On rank 0, from gather_state() to the next step() or load_state_dict(): the state of all
  // shares. Otherwise empty.
  NamedTensors whole_;
};

}  // namespace gradus::optim
