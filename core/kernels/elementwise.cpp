#include "gradus/core/kernels/elementwise.h"

#include "gradus/core/internal.h"

namespace gradus::kernel {

void convert(const char* op, const Tensor& x, const Tensor& y) {
  dispatch_any(op, x.dtype(), [&]<class From>(TypeTag<From>) {
    dispatch_any(op, y.dtype(), [&]<class To>(TypeTag<To>) {
      map<To, From>(y, x, [](From v) { return static_cast<To>(v); });
    });
  });
}

}  // namespace gradus::kernel
