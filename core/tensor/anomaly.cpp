// AnomalyMode: the checks of gradients during a backward pass.

#include <algorithm>
#include <cmath>

#include "gradus/core/internal.h"
#include "gradus/core/tensor/engine.h"

namespace gradus {

bool internal::all_finite(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& x) {
    if (!x.defined() || !is_floating(x.dtype())) return true;
    const Tensor flat = x.detach().contiguous();
    return dispatch_floating("anomaly", x.dtype(), [&]<class T>(TypeTag<T>) {
      const T* values = flat.data<T>();
      return std::all_of(values, values + flat.numel(), [](T v) { return std::isfinite(v); });
    });
  });
}

bool Engine::may_write(int input, const Tensor& sum) {
  const bool may = !anomaly_ || all_finite({sum});
  if (anomaly_ && may) written_.push_back(input);
  return may;
}

void Engine::check_finite(const Node& node, int input, const Tensor& gradient) const {
  check(!anomaly_ || !incoming_finite_ || all_finite({gradient}), "anomaly: the backward of ",
        node.name(), " produced a NaN or an infinity for input ", input, " of shape ",
        gradient.shape());
}

}  // namespace gradus
