#pragma once
// WeightAverage: a running mean of the weights over the last steps, which often scores better than
// the weights themselves.

#include "gradus/core/files/named_tensors.h"

namespace gradus::optim {

/// Running means of parameters: after the t-th update() (from 1) each is d mean + (1 - d) param with
/// d = min(decay, t / (9 + t)), so that the first weights are soon forgotten. Polyak & Juditsky
/// 1992; Tarvainen & Valpola 2017, arXiv 1703.01780.
///   optim::WeightAverage average(model.parameters(), 0.999);
///   ... optimizer.step();  average.update(); ...
///   { optim::WeightAverage::Applied applied(average);  evaluate(model); }
class WeightAverage {
 public:
  /// Starts from the parameters' present values. Parameters in bfloat16 or int8, which no optimiser
  /// changes, are left out. Throws Error unless 0 <= decay < 1 and the
  /// parameters are contiguous, of float32 or float64, and none is listed twice.
  explicit WeightAverage(std::vector<Tensor> params, double decay = 0.999);

  /// Moves the means towards the parameters: call it after each step of the optimiser.
  void update();
  const std::vector<Tensor>& means() const { return means_; }  ///< in the parameters' order

  /// Exchanges the parameters' values with the means for its lifetime.
  class Applied {
   public:
    explicit Applied(WeightAverage& average) : average_(average) { average_.exchange(); }
    ~Applied() { average_.exchange(); }
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    WeightAverage& average_;
  };

  /// "updates", the number of updates, and each mean as "mean.0", "mean.1", ...
  NamedTensors state_dict() const;
  /// Restores what state_dict() returned. Throws one Error that lists all names that do not fit,
  /// with nothing changed.
  void load_state_dict(const NamedTensors& state);

 private:
  void exchange();

  std::vector<Tensor> params_, means_;
  double decay_;
  int64_t updates_ = 0;
};

}  // namespace gradus::optim
