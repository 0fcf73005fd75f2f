#pragma once
// Statistics of a model's layers during training.

#include <string>
#include <vector>

#include "gradus/core/files/named_tensors.h"
#include "gradus/nn/module.h"

namespace gradus {

/// Returns how many elements of x have magnitudes in each of 32 ranges. Range i, from 1 to 31, is
/// [2^(i-25), 2^(i-24)). Smaller magnitudes and zeros count in range 0, and larger ones in range
/// 31. If x has more than 4096 elements, evenly spaced elements are counted.
std::vector<int64_t> magnitudes(const Tensor& x);

/// Statistics of one update of a model's matrices: the first 200 float32 parameters of rank 2 or
/// more. At most 4096 elements of each are read, evenly spaced.
class LayerStatistics {
 public:
  /// Starts the statistics. Call it before the optimiser's step, when the gradients of the step
  /// exist.
  explicit LayerStatistics(const nn::Module& model);
  /// Returns the statistics, and must be called after the optimiser's step. The result is a JSON
  /// array of {"name", "weights", "gradients", "ratio"} and, for activations, {"name",
  /// "activations"}. The ratio is |update| / |weights|; the other values are magnitudes().
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
