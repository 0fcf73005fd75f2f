#pragma once
// WeightAverage: an exponential moving average (EMA) of the weights. A model often has a lower
// validation loss with the averaged weights than with its last weights.

#include "gradus/core/files/named_tensors.h"

namespace gradus::optim {

/// Running means of parameters. The t-th update() (from 1) sets each mean to d mean + (1 - d) param
/// with d = min(decay, t / (9 + t)), so that the first weights are soon forgotten. Polyak &
/// Juditsky 1992; Tarvainen & Valpola 2017, arXiv 1703.01780. Example:
///   optim::WeightAverage average(model.parameters(), 0.999);
///   ... optimizer.step();  average.update(); ...
///   { optim::WeightAverage::Applied applied(average);  evaluate(model); }
/// A WeightAverage is movable but not copyable: a copy would share the means but not the number of
/// updates. A mean may overflow to infinity if it differs from the parameter by more than the
/// largest finite number.
class WeightAverage {
 public:
  WeightAverage(WeightAverage&&) noexcept = default;
  WeightAverage& operator=(WeightAverage&&) noexcept = default;
  /// Sets each mean to the current value of its parameter. Leaves out bfloat16 and int8 parameters,
  /// since no optimiser changes them. Throws Error unless 0 <= decay < 1. Also throws Error unless
  /// all remaining parameters are contiguous tensors of float32 or float64, are listed once each,
  /// and share no memory.
  explicit WeightAverage(std::vector<Tensor> params, double decay = 0.999);

  /// Moves the means towards the parameters. Call update() after each step of the optimiser. Throws
  /// Error if the dtype of a parameter has changed, or while an Applied object exists.
  void update();
  /// Returns the means, one per float32 or float64 parameter, in the order of the parameters. While
  /// an Applied object exists, returns the parameters' own values, since this object has swapped
  /// them with the means.
  const std::vector<Tensor>& means() const { return means_; }

  /// Swaps the values of the parameters and the means on construction, and back on destruction. In
  /// between, the parameters must not change their dtype, and the WeightAverage must not be moved.
  /// Throws Error if another Applied object exists, or if the dtype of a parameter has changed.
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
  /// means share memory with this WeightAverage. Throws Error while an Applied object exists.
  NamedTensors state_dict() const;
  /// Restores a state returned by state_dict(). If names, shapes or dtypes do not match, changes
  /// nothing and throws one Error that lists the names. Also throws Error, with nothing changed, if
  /// the number of updates is below 0 or above 2^53, or while an Applied object exists.
  void load_state_dict(const NamedTensors& state);

 private:
  void exchange(bool apply);

  std::vector<Tensor> params_, means_;
  double decay_;
  int64_t updates_ = 0;
  bool applied_ = false;  // whether an Applied object exists
};

}  // namespace gradus::optim
