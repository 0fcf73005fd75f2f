#pragma once
// Statistics of a model's layers during training.

#include <string>
#include <vector>

#include "gradus/core/files/named_tensors.h"
#include "gradus/nn/module.h"

namespace gradus {

/// Returns how many elements of x have magnitudes in each of 32 ranges. Range i, from 1 to 31, is
/// [2^(i-25), 2^(i-24)). Range 0 counts smaller magnitudes and zeros, and range 31 also counts
/// larger ones and NaN. Counts at most 4096 elements, evenly spaced. All counts are 0 if x is
/// undefined, not contiguous or not float32.
std::vector<int64_t> magnitudes(const Tensor& x);

/// Statistics of one update of a model's matrices: the first 200 contiguous float32 parameters of
/// rank 2 or more. At most 4096 elements of each are read, evenly spaced.
class LayerStatistics {
 public:
  /// Samples the weights. Must be called before the optimiser's step.
  explicit LayerStatistics(const nn::Module& model);
  /// Returns the statistics, a JSON array of {"name", "weights", "gradients", "ratio"} and, for
  /// activations, {"name", "activations"}. "ratio" is |update| / |weights before the update|, or
  /// null if that is not finite. "weights", "gradients" and "activations" are magnitudes(). Must be
  /// called after the optimiser's step, before the gradients are cleared.
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
