#include "gradus/core/ops/comparison.h"

#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"

namespace gradus {

// ---- comparison and logic ----

namespace {
void check_bool(const char* op, const char* what, const Tensor& x) {
  check(x.dtype() == boolean, op, ": expected a bool ", what, ", got ", x.dtype());
}

template <class F>
Tensor compare(const char* op, const Tensor& a, const Tensor& b, F f) {
  const ProfileScope scope(op);
  check_same_dtype(op, a, b);
  Tensor y = empty(broadcast_shapes(op, a.shape(), b.shape()), boolean);
  dispatch_any(op, a.dtype(), [&]<class T>(TypeTag<T>) { kernel::map<bool, T, T>(y, a, b, f); });
  return y;
}

template <class F>
Tensor compare(const char* op, const Tensor& a, double s, F f) {
  return compare(op, a, full(op, {}, s, a.dtype()), f);
}
}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", a, b, std::equal_to<>()); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", a, b, std::not_equal_to<>()); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", a, b, std::less<>()); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", a, b, std::less_equal<>()); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare("gt", a, b, std::greater<>()); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare("ge", a, b, std::greater_equal<>()); }
Tensor eq(const Tensor& a, double b) { return compare("eq", a, b, std::equal_to<>()); }
Tensor ne(const Tensor& a, double b) { return compare("ne", a, b, std::not_equal_to<>()); }
Tensor lt(const Tensor& a, double b) { return compare("lt", a, b, std::less<>()); }
Tensor le(const Tensor& a, double b) { return compare("le", a, b, std::less_equal<>()); }
Tensor gt(const Tensor& a, double b) { return compare("gt", a, b, std::greater<>()); }
Tensor ge(const Tensor& a, double b) { return compare("ge", a, b, std::greater_equal<>()); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  check_bool("logical_and", "tensor", a);
  return compare("logical_and", a, b, std::logical_and<>());
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  check_bool("logical_or", "tensor", a);
  return compare("logical_or", a, b, std::logical_or<>());
}
Tensor logical_not(const Tensor& x) {
  check_bool("logical_not", "tensor", x);
  return compare("logical_not", x, x, [](bool v, bool) { return !v; });
}
Tensor isnan(const Tensor& x) { return ne(x, x); }

// |a - b| is finite, so that an infinity is close to itself only.
bool allclose(const Tensor& a, const Tensor& b, const AllcloseOptions& o) {
  check(o.rtol >= 0 && o.atol >= 0, "allclose: expected rtol and atol >= 0, got ", o.rtol, " and ",
        o.atol);
  const Tensor close = compare("allclose", a, b, [o](auto u, auto v) {
    const auto x = static_cast<double>(u), y = static_cast<double>(v), distance = std::abs(x - y);
    return u == v || (std::isfinite(distance) && distance <= o.atol + o.rtol * std::abs(y)) ||
           (o.equal_nan && std::isnan(x) && std::isnan(y));
  });
  return all(close).item<bool>();
}

// ---- selection by a mask ----

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const ProfileScope scope("where");
  check_bool("where", "condition", condition);
  check_same_dtype("where", a, b);
  const Shape shape =
      broadcast_shapes("where", broadcast_shapes("where", a.shape(), b.shape()), condition.shape());
  Tensor y = empty(shape, a.dtype());
  dispatch_any("where", a.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, bool, T, T>(y, condition, a, b, [](bool c, T u, T v) { return c ? u : v; });
  });
  record("where", {y}, {condition, a, b}, saves_input(0).allow_infinite(), [](Backward& back) {
    const Tensor condition = back.input(0);
    if (back.needs(1))
      back.give(1,
                sum_to(masked_fill(back.grad(), logical_not(condition), 0), back.input_shape(1)));
    if (back.needs(2))
      back.give(2, sum_to(masked_fill(back.grad(), condition, 0), back.input_shape(2)));
  });
  return y;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  const ProfileScope scope("masked_fill");
  check_bool("masked_fill", "mask", mask);
  check(broadcast_shapes("masked_fill", x.shape(), mask.shape()) == x.shape(),
        "masked_fill: mask of shape ", mask.shape(), " does not broadcast to ", x.shape());
  check_number("masked_fill", x.dtype(), value);
  Tensor y = empty_like(x);
  dispatch_any("masked_fill", x.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T, bool>(y, x, mask,
                            [v = static_cast<T>(value)](T u, bool m) { return m ? v : u; });
  });
  record("masked_fill", {y}, {x, mask}, saves_input(1).allow_infinite(),
         [](Backward& b) { b.give(0, masked_fill(b.grad(), b.input(1), 0)); });
  return y;
}

}  // namespace gradus
