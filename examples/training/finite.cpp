#include "examples/training/finite.h"

#include <algorithm>
#include <cmath>

namespace gradus {

std::string first_not_finite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || !is_floating(tensor.dtype())) continue;
    const Tensor t = tensor.detach().contiguous();
    const bool finite = dispatch_floating("first_not_finite", t.dtype(), [&](auto tag) {
      const auto* p = t.template data<typename decltype(tag)::type>();
      // x - x is 0 if x is finite, else NaN: counts without a branch.
      return std::count_if(p, p + t.numel(), [](auto x) { return x - x != 0; }) == 0;
    });
    if (!finite) return name;
  }
  return "";
}

}  // namespace gradus
