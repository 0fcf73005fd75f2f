#pragma once
// Statistics of a model's layers during training.

#include <string>
#include <vector>

#include "gradus/core/files/named_tensors.h"
#include "gradus/nn/module.h"

namespace gradus {

/// Returns a histogram of the magnitudes of x: 32 counts. Count i is the number of elements with
/// magnitudes in [2^(i-25), 2^(i-24)). Count 0 also includes smaller magnitudes and zeros, and
/// count 31 also includes larger magnitudes and NaN. At most 4096 elements, evenly spaced, are
/// counted. All counts are 0 if x is undefined, not contiguous or not float32.
std::vector<int64_t> magnitudes(const Tensor& x);

/// Statistics of one update of a model's weights. Includes the first 200 contiguous float32
/// parameters of rank 2 or more. At most 4096 elements of each parameter are read, evenly spaced.
class LayerStatistics {
 public:
  /// Copies up to 4096 elements of each parameter, so that take() can compute the update. Must be
  /// called before the optimiser's step.
  explicit LayerStatistics(const nn::Module& model);
  /// Returns the statistics as a JSON array: {"name", "weights", "gradients", "ratio"} for each
  /// parameter, and {"name", "activations"} for each activation. "ratio" is norm(update) / norm(old
  /// weights), or null if not finite. "weights", "gradients" and "activations" are histograms, see
  /// magnitudes(). Must be called after the optimiser's step, before the gradients are cleared.
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
