#pragma once
// Statistics of a model's layers during training.

#include <string>
#include <vector>

#include "gradus/core/files/named_tensors.h"
#include "gradus/nn/module.h"

namespace gradus {

/// Counts of |x| by powers of two: x in [2^(i-25), 2^(i-24)) for i from 1 to 31, smaller ones and
/// zeros for i = 0, larger ones with 31. Of a tensor with more than 4096 elements, evenly spaced
/// ones are counted.
std::vector<int64_t> magnitudes(const Tensor& x);

/// Statistics of one update of a model's matrices (parameters of rank 2 or more, float32), the first
/// 200 of them. Reads evenly spaced elements only, at most 4096 of each.
class LayerStatistics {
 public:
  /// Before the optimiser's step, with the gradients of that step.
  explicit LayerStatistics(const nn::Module& model);
  /// After it: a JSON array of {"name", "weights", "gradients", "ratio"} and, for activations,
  /// {"name", "activations"}: magnitudes(), and |update| / |weights|.
  std::string take(const NamedTensors& activations) const;

 private:
  struct Layer {
    std::string name;
    Tensor weights;
    std::vector<float> before;
  };
  std::vector<Layer> layers_;
};

}  // namespace gradus
