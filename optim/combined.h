#pragma once
// CombinedOptimizer: several optimisers as one, for parameters that need different rules.

#include <memory>

#include "gradus/optim/optimizer.h"

namespace gradus::optim {

/// Optimisers that step, clip, follow a learning-rate schedule and are saved together. Gradients are
/// clipped by the norm of all. If one of the optimisers cannot take a step, none does.
class CombinedOptimizer : public Optimizer {
 public:
  /// Throws Error, naming the two optimisers, if a parameter is in both of them, and if there is no
  /// optimiser.
  explicit CombinedOptimizer(std::vector<std::unique_ptr<Optimizer>> parts);

  /// Of all optimisers, in the order given.
  std::vector<Tensor> parameters() const override;
  double lr() const override;  ///< the first optimiser's
  /// Sets the first optimiser's learning rate and multiplies the others' by the same factor: their
  /// ratios stay as they were at construction.
  void set_lr(double lr) override;
  /// Each optimiser's state, with the optimiser's name and a dot before each name, such as
  /// "Muon.momentum.0". The second of two AdamWs is "AdamW2".
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 private:
  std::vector<Tensor> gradients() const override;
  void check_step() const override;
  void apply(double grad_scale) override;
  void keep_only(const std::set<const void*>& owned) override;

  struct Part {
    std::unique_ptr<Optimizer> optimizer;
    std::string name;  // before the names of its state
    double lr_ratio;   // its learning rate for 1 of the first optimiser's
  };
  std::vector<Part> parts_;
};

}  // namespace gradus::optim
