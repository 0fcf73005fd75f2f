#pragma once
// WeightAverage: an exponential moving average (EMA) of the weights. With it, a model often has a
// lower validation loss than with the weights themselves.

#include "gradus/core/files/named_tensors.h"

namespace gradus::optim {

/// Running means of parameters. The t-th update() (from 1) sets each mean to d mean + (1 - d) param
/// with d = min(decay, t / (9 + t)), so that the first weights are soon forgotten. Polyak &
/// Juditsky 1992; Tarvainen & Valpola 2017, arXiv 1703.01780. Example:
///   optim::WeightAverage average(model.parameters(), 0.999);
///   ... optimizer.step();  average.update(); ...
///   { optim::WeightAverage::Applied applied(average);  evaluate(model); }
/// A WeightAverage is movable but not copyable: a copy would share the means but not the number of
/// updates. A mean overflows to infinity if the difference between it and the parameter exceeds the
/// largest finite number.
class WeightAverage {
 public:
  WeightAverage(WeightAverage&&) noexcept = default;
  WeightAverage& operator=(WeightAverage&&) noexcept = default;
  /// Starts from the current values of the parameters. Parameters in bfloat16 or int8 are left out,
  /// since no optimiser changes them. Throws Error unless 0 <= decay < 1 and all other parameters
  /// are contiguous, float32 or float64, listed once each, and share no memory.
  explicit WeightAverage(std::vector<Tensor> params, double decay = 0.999);

  /// Moves the means towards the parameters. Call update() after each step of the optimiser. Throws
  /// Error if the dtype of a parameter has changed, or while the means are applied (see Applied).
  void update();
  /// Returns the means, in the order of the parameters. While the means are applied (see Applied),
  /// returns the parameters' own values instead, since the two are then swapped.
  const std::vector<Tensor>& means() const { return means_; }

  /// Swaps the values of the parameters and the means on construction, and back on destruction. In
  /// between, the parameters must not change their dtype, and the WeightAverage must not be moved.
  /// Throws Error if another Applied exists, or if the dtype of a parameter has changed.
  class Applied {
   public:
    explicit Applied(WeightAverage& average) : average_(average) { average_.exchange(true); }
    ~Applied() { average_.exchange(false); }
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    WeightAverage& average_;
  };

  /// Returns "updates", the number of updates, and the means as "mean.0", "mean.1", and so on. The
  /// means share memory with this object. Throws Error while the means are applied (see Applied).
  NamedTensors state_dict() const;
  /// Restores a state returned by state_dict(). If names, shapes or dtypes do not match, changes
  /// nothing and throws one Error that lists the names. Also throws Error, with nothing changed, if
  /// the number of updates is below 0 or above 2^53, or while the means are applied (see Applied).
  void load_state_dict(const NamedTensors& state);

 private:
  void exchange(bool apply);

  std::vector<Tensor> params_, means_;
  double decay_;
  int64_t updates_ = 0;
  bool applied_ = false;  // whether an Applied exists
};

}  // namespace gradus::optim
