#pragma once
// Reads golden files, which contain PyTorch's results and are written by the scripts in
// tests/golden/scripts, and compares results with them.

#include <string>

#include "gradus/core/core.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"

namespace golden {

/// The tensors of a golden file, tests/golden/NAME.safetensors.
class File {
 public:
  explicit File(const std::string& name)
      : tensors_(gradus::load_safetensors(
                     gradus::testing::source_path("tests/golden/" + name + ".safetensors"))
                     .tensors) {}

  bool has(const std::string& name) const {
    for (const auto& [key, tensor] : tensors_)
      if (key == name) return true;
    return false;
  }
  /// Returns the tensor with this name. A float32 or float64 tensor is converted to `dtype`. Throws
  /// Error if there is no tensor with this name.
  gradus::Tensor get(const std::string& name, gradus::Dtype dtype = gradus::float64) const {
    for (const auto& [key, tensor] : tensors_)
      if (key == name)
        return gradus::is_floating(tensor.dtype()) ? tensor.to(dtype).detach() : tensor;
    gradus::core::fail("golden: there is no ", name);
  }
  /// Returns all tensors whose names start with `prefix`, converted to `dtype`. The returned names
  /// lack the prefix.
  gradus::NamedTensors with_prefix(const std::string& prefix,
                                   gradus::Dtype dtype = gradus::float64) const {
    gradus::NamedTensors found;
    for (const auto& [key, tensor] : tensors_)
      if (key.starts_with(prefix))
        found.emplace_back(key.substr(prefix.size()), tensor.to(dtype).detach());
    return found;
  }

 private:
  gradus::NamedTensors tensors_;
};

/// Returns norm(actual - expected) / norm(expected), computed in float64. Returns NaN if both
/// tensors are 0. Throws Error if `actual` is undefined or the shapes differ.
inline double difference(const gradus::Tensor& actual, const gradus::Tensor& expected) {
  gradus::core::check(actual.defined(), "golden: there is no result to compare");
  gradus::core::check(actual.shape() == expected.shape(), "golden: shapes differ: ", actual.shape(),
                      " and ", expected.shape());
  gradus::NoGrad no_grad;
  const gradus::Tensor a = actual.to(gradus::float64), b = expected.to(gradus::float64);
  return gradus::norm(a - b).item() / gradus::norm(b).item();
}

/// Returns whether two tensors have the same shape, dtype and bits, or are both undefined.
inline bool same(const gradus::Tensor& a, const gradus::Tensor& b) { return same_bits(a, b); }

}  // namespace golden
