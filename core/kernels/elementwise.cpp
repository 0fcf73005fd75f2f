#include "gradus/core/kernels/elementwise.h"

#include "gradus/core/internal.h"

namespace gradus::kernel {

void convert(const Tensor& x, const Tensor& y) {
  dispatch_any(x.dtype(), [&](auto from) {
    using From = typename decltype(from)::type;
    dispatch_any(y.dtype(), [&](auto to) {
      using To = typename decltype(to)::type;
      map<To, From>(y, x, [](From v) { return static_cast<To>(v); });
    });
  });
}

}  // namespace gradus::kernel
