#include "gradus/core/kernels/elementwise.h"

namespace gradus::kernel {

namespace {
template <class To, class From>
To converted(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, int64_t>) {
    constexpr From limit = From(0x1p63);
    if (v != v) return 0;
    return v >= limit ? INT64_MAX : v < -limit ? INT64_MIN : static_cast<int64_t>(v);
  } else {
    return static_cast<To>(v);
  }
}
}  // namespace

void convert(const Tensor& x, const Tensor& y) {
  dispatch_any(x.dtype(), [&](auto from) {
    using From = typename decltype(from)::type;
    dispatch_any(y.dtype(), [&](auto to) {
      using To = typename decltype(to)::type;
      map<To, From>(y, x, [](From v) { return converted<To>(v); });
    });
  });
}

}  // namespace gradus::kernel
