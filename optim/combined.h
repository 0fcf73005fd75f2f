#pragma once
// CombinedOptimizer: several optimisers used as one, for parameters that need different rules.

#include <memory>

#include "gradus/optim/optimizer.h"

namespace gradus::optim {

/// Several optimisers used as one: they step together, follow one learning-rate schedule and are
/// saved together. Gradients are clipped by their norm over all parameters. If one optimiser
/// rejects a gradient (Muon rejects NaN and infinity), step() throws Error and updates no
/// parameter. Optimisers such as AdamW accept a NaN gradient; if gradients are clipped, the norm is
/// then NaN, and clipping multiplies the gradients of all optimisers by NaN.
class CombinedOptimizer : public Optimizer {
 public:
  /// Throws Error if `parts` is empty, or contains null or a ShardedOptimizer (shard the
  /// CombinedOptimizer instead). Also throws Error if the learning rate of the first optimiser is
  /// 0, or if a parameter is in two optimisers; the message then names both.
  explicit CombinedOptimizer(std::vector<std::unique_ptr<Optimizer>> parts);

  /// Returns the parameters of all optimisers, in the order of the constructor's `parts`.
  std::vector<Tensor> parameters() const override;
  double lr() const override;  ///< learning rate of the first optimiser
  /// Sets the learning rate of the first optimiser to `lr`. Sets the learning rate of each other
  /// optimiser so that its ratio to `lr` stays as at construction. Throws Error, with nothing
  /// changed, if one of the learning rates would be negative or not finite.
  void set_lr(double lr) override;
  /// Returns the states of all optimisers. Each name starts with the name of its optimiser and a
  /// dot, for example "Muon.momentum.0". Optimisers of the same kind are numbered: "AdamW",
  /// "AdamW2", "AdamW3", and so on.
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 private:
  std::vector<Tensor> gradients() const override;
  void check_step() const override;
  void apply(double grad_scale) override;
  void keep_only(const std::set<const void*>& owned) override;

  struct Part {
    std::unique_ptr<Optimizer> optimizer;
    std::string name;  // prefix of the optimiser's state names in state_dict()
    double lr_ratio;   // the optimiser's learning rate divided by that of the first
  };
  std::vector<Part> parts_;
};

}  // namespace gradus::optim
