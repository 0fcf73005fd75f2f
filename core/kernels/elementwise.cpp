#include "gradus/core/kernels/elementwise.h"

#include "gradus/core/internal.h"

namespace gradus::kernel {

void convert(const Tensor& x, const Tensor& y) {
  dispatch_any(x.dtype(), [&]<class From>(TypeTag<From>) {
    dispatch_any(y.dtype(), [&]<class To>(TypeTag<To>) {
      map<To, From>(y, x, [](From v) { return static_cast<To>(v); });
    });
  });
}

}  // namespace gradus::kernel
