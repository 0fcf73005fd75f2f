#include "gradus/core/ops/pointwise.h"

#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/shape.h"

namespace gradus {

namespace {

/// y = f(x) for floating x.
template <class F, class RuleFn>
Tensor unary(const char* name, const Tensor& x, Saves saves, F f, RuleFn rule) {
  const ProfileScope scope(name);
  Tensor y = dispatch_floating(name, x.dtype(), [&]<class T>(TypeTag<T>) {
    Tensor out = empty_like(x);
    kernel::map<T, T>(out, x, f);
    return out;
  });
  record(name, {y}, {x}, saves, std::move(rule));
  return y;
}

/// y = f(a, b) for two tensors of one number type.
template <class F, class RuleFn>
Tensor binary(const char* name, const Tensor& a, const Tensor& b, Saves saves, F f, RuleFn rule) {
  const ProfileScope scope(name);
  check_same_dtype(name, a, b);
  const Shape shape = broadcast_shapes(name, a.shape(), b.shape());
  Tensor y = dispatch_number(name, a.dtype(), [&]<class T>(TypeTag<T>) {
    Tensor out = empty(shape, a.dtype());
    kernel::map<T, T, T>(out, a, b, f);
    return out;
  });
  record(name, {y}, {a, b}, saves, std::move(rule));
  return y;
}

/// y = f(x, s) for a C++ number s, converted to x's dtype.
template <class F, class RuleFn>
Tensor with_scalar(const char* name, const Tensor& x, double s, Saves saves, F f, RuleFn rule) {
  const ProfileScope scope(name);
  Tensor y = dispatch_number(name, x.dtype(), [&]<class T>(TypeTag<T>) {
    check_number(name, x.dtype(), s);
    Tensor out = empty_like(x);
    kernel::map<T, T>(out, x, [f, v = static_cast<T>(s)](T u) { return f(u, v); });
    return out;
  });
  record(name, {y}, {x}, saves, std::move(rule));
  return y;
}

/// f, computed in unsigned arithmetic for int64, which wraps around.
template <class F>
auto wrapping(F f) {
  return [f](auto x, auto y) {
    using T = decltype(x);
    using W = kernel::Wrapping<T>;
    if constexpr (std::is_floating_point_v<T>)
      return f(x, y);
    else
      return static_cast<T>(f(static_cast<W>(x), static_cast<W>(y)));
  };
}

/// Gives input i its gradient, if needed, summed over the axes along which it was broadcast.
void give_summed(Backward& b, int i, const Tensor& gradient) {
  if (b.needs(i)) b.give(i, sum_to(gradient, b.input_shape(i)));
}

}  // namespace

// ---- arithmetic ----

Tensor operator+(const Tensor& a, const Tensor& b) {
  return binary("add", a, b, saves_nothing, wrapping(std::plus<>()), [](Backward& b) {
    for (int i : {0, 1}) give_summed(b, i, b.grad());
  });
}

Tensor operator-(const Tensor& a, const Tensor& b) {
  return binary("sub", a, b, saves_nothing, wrapping(std::minus<>()), [](Backward& b) {
    give_summed(b, 0, b.grad());
    if (b.needs(1)) give_summed(b, 1, -b.grad());
  });
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  return binary("mul", a, b, saves_inputs, wrapping(std::multiplies<>()), [](Backward& b) {
    if (b.needs(0)) give_summed(b, 0, b.grad() * b.input(1));
    if (b.needs(1)) give_summed(b, 1, b.grad() * b.input(0));
  });
}

// d(a/b) = da / b - db a / b^2
Tensor operator/(const Tensor& a, const Tensor& b) {
  check_floating("div", a);
  return binary("div", a, b, saves_inputs, std::divides<>(), [](Backward& b) {
    const Tensor scaled = b.grad() / b.input(1);
    give_summed(b, 0, scaled);
    if (b.needs(1)) give_summed(b, 1, -scaled * (b.input(0) / b.input(1)));
  });
}

Tensor operator+(const Tensor& a, double s) {
  return with_scalar("add_scalar", a, s, saves_nothing, wrapping(std::plus<>()),
                     [](Backward& b) { b.give(0, b.grad()); });
}

Tensor operator*(const Tensor& a, double s) {
  return with_scalar("mul_scalar", a, s, saves_nothing, wrapping(std::multiplies<>()),
                     [s](Backward& b) { b.give(0, b.grad() * s); });
}

// d(s/x) = -s / x^2
Tensor operator/(double s, const Tensor& x) {
  check_floating("div", x);
  return with_scalar(
      "scalar_div", x, s, saves_input(0), [](auto u, auto v) { return v / u; },
      [s](Backward& b) {
        const Tensor x = b.input(0);
        b.give(0, b.grad() * (-s / x / x));  // x * x may overflow
      });
}

Tensor operator/(const Tensor& a, double s) {
  check_floating("div", a);
  return with_scalar(
      "div_scalar", a, s, saves_nothing, [](auto x, auto v) { return x / v; },
      [s](Backward& b) { b.give(0, b.grad() / s); });
}

Tensor operator-(const Tensor& x) { return x * -1.0; }
Tensor operator-(const Tensor& a, double s) { return a + -s; }
Tensor operator+(double s, const Tensor& b) { return b + s; }
Tensor operator-(double s, const Tensor& b) { return -b + s; }
Tensor operator*(double s, const Tensor& b) { return b * s; }

// d(a^b) = da b a^(b-1) + db a^b log a. The first term is 0 if b = 0, the second if a = 0 <= b.
Tensor pow(const Tensor& a, const Tensor& b) {
  check_floating("pow", a);
  return binary(
      "pow", a, b, saves_inputs,
      [](auto x, auto y) { return static_cast<decltype(x)>(std::pow(x, y)); },
      [](Backward& back) {
        const Tensor a = back.input(0), b = back.input(1), dy = back.grad();
        if (back.needs(0)) {
          // The factor b = 0 remains in the graph: its own gradient is a^-1, not 0.
          constexpr double infinity = std::numeric_limits<double>::infinity();
          const Tensor zero = logical_and(eq(b, 0), logical_not(lt(abs(1.0 / a), infinity)));
          const Tensor safe = where(zero, scalar(1, a.dtype()), a);
          give_summed(back, 0, dy * (b * pow(safe, b - 1.0)));
        }
        if (back.needs(1)) {
          const Tensor zero = logical_and(eq(a, 0), ge(b, 0));
          const Tensor safe = where(zero, scalar(1, a.dtype()), a);  // log 1 = 0
          give_summed(back, 1, dy * pow(a, b) * log(safe));
        }
      });
}

Tensor pow(const Tensor& x, double p) {
  if (p == 2 && is_floating(x.dtype())) return x * x;
  return unary(
      "pow_scalar", x, saves_input(0),
      [p](auto v) { return std::pow(v, static_cast<decltype(v)>(p)); },
      [p](Backward& b) {
        b.give(0, p == 0 ? zeros_like(b.grad()) : b.grad() * (pow(b.input(0), p - 1) * p));
      });
}

// ---- selection ----

namespace {
/// The backward rule of maximum and minimum. An operand's gradient is dy, but dy / 2 where both
/// operands are equal and 0 where loses(operand, other). NaN never loses.
template <class Loses>
Rule extremum_rule(Loses loses) {
  return [loses](Backward& back) {
    const Tensor a = back.input(0).detach(), b = back.input(1).detach(), dy = back.grad();
    const Tensor share = 1.0 - eq(a, b).to(dy.dtype()) * 0.5;
    if (back.needs(0)) give_summed(back, 0, masked_fill(dy * share, loses(a, b), 0));
    if (back.needs(1)) give_summed(back, 1, masked_fill(dy * share, loses(b, a), 0));
  };
}
}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) {
  return binary(
      "maximum", a, b, saves_inputs, [](auto x, auto y) { return x > y || x != x ? x : y; },
      extremum_rule([](const Tensor& x, const Tensor& y) { return lt(x, y); }));
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return binary(
      "minimum", a, b, saves_inputs, [](auto x, auto y) { return x < y || x != x ? x : y; },
      extremum_rule([](const Tensor& x, const Tensor& y) { return gt(x, y); }));
}

Tensor maximum(const Tensor& x, double s) { return maximum(x, full("maximum", {}, s, x.dtype())); }
Tensor minimum(const Tensor& x, double s) { return minimum(x, full("minimum", {}, s, x.dtype())); }

Tensor clamp(const Tensor& x, double low, double high) {
  check(low <= high, "clamp: low ", low, " is above high ", high);
  return unary(
      "clamp", x, saves_input(0),
      [low, high](auto v) {
        const auto l = static_cast<decltype(v)>(low), h = static_cast<decltype(v)>(high);
        return v < l ? l : v > h ? h : v;
      },
      [low, high](Backward& b) {
        const Tensor x = b.input(0).detach();
        const Tensor inside = logical_and(ge(x, low), le(x, high));
        b.give(0, masked_fill(b.grad(), logical_not(inside), 0));
      });
}

// y = (1 - w) a + w b                        da = (1 - w) dy    db = w dy    dw = (b - a) dy
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const ProfileScope scope("lerp");
  check_same_dtype("lerp", a, b);
  check_same_dtype("lerp", a, weight);
  const Shape shape =
      broadcast_shapes("lerp", broadcast_shapes("lerp", a.shape(), b.shape()), weight.shape());
  const Tensor y = empty(shape, a.dtype());
  dispatch_floating("lerp", a.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T, T, T>(y, a, b, weight,
                            [](T u, T v, T w) { return u == v ? u : (1 - w) * u + w * v; });
  });
  record("lerp", {y}, {a, b, weight}, weight.requires_grad() ? saves_inputs : saves_input(2),
         [](Backward& back) {
           const Tensor w = back.input(2), dy = back.grad();
           if (back.needs(0)) give_summed(back, 0, dy * (1.0 - w));
           if (back.needs(1)) give_summed(back, 1, dy * w);
           if (back.needs(2)) give_summed(back, 2, dy * (back.input(1) - back.input(0)));
         });
  return y;
}

Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  check_floating("lerp", a);
  return lerp(a, b, scalar(weight, a.dtype()));
}

// ---- functions ----

Tensor exp(const Tensor& x) {
  return unary(
      "exp", x, saves_output, [](auto v) { return kernel::exp(v); },
      [](Backward& b) { b.give(0, b.grad() * b.output()); });
}

Tensor log(const Tensor& x) {
  return unary(
      "log", x, saves_input(0), [](auto v) { return kernel::log(v); },
      [](Backward& b) { b.give(0, b.grad() / b.input(0)); });
}

Tensor sqrt(const Tensor& x) {
  return unary(
      "sqrt", x, saves_output, [](auto v) { return std::sqrt(v); },
      [](Backward& b) { b.give(0, b.grad() * 0.5 / b.output()); });
}

// d(x^-1/2) = -1/2 y^3
Tensor rsqrt(const Tensor& x) {
  return unary(
      "rsqrt", x, saves_output, [](auto v) { return 1 / std::sqrt(v); },
      [](Backward& b) {
        const Tensor y = b.output();
        b.give(0, b.grad() * (y * y * y * -0.5));
      });
}

Tensor log1p(const Tensor& x) {
  return unary(
      "log1p", x, saves_input(0), [](auto v) { return kernel::log1p(v); },
      [](Backward& b) { b.give(0, b.grad() / (b.input(0) + 1.0)); });
}

// The gradient is e^x, computed from x: y + 1 would lose all digits for large negative x.
Tensor expm1(const Tensor& x) {
  return unary(
      "expm1", x, saves_input(0), [](auto v) { return kernel::expm1(v); },
      [](Backward& b) { b.give(0, b.grad() * exp(b.input(0))); });
}

namespace {
/// A piecewise constant function, whose gradient is 0.
template <class F>
Tensor stepwise(const char* name, const Tensor& x, F f) {
  const NoGrad no_grad;
  return unary(name, x, saves_nothing, f, [](Backward&) {});
}
}  // namespace

Tensor floor(const Tensor& x) {
  return stepwise("floor", x, [](auto v) { return std::floor(v); });
}
Tensor ceil(const Tensor& x) {
  return stepwise("ceil", x, [](auto v) { return std::ceil(v); });
}
Tensor round(const Tensor& x) {
  return stepwise("round", x, [](auto v) { return std::nearbyint(v); });
}

namespace {
/// The number of elements of x (float32) with |x_i| > limit.
int64_t count_beyond(const Tensor& x, float limit) {
  const Tensor flat = x.detach().contiguous();
  const float* p = flat.data<float>();
  return parallel_sum<int64_t>(
      x.numel(), kernel::elementwise_grain, [=](int64_t begin, int64_t end) {
        return int64_t{simd_sum<int>(end - begin, [=, from = p + begin](int64_t i) {
          return std::abs(from[i]) > limit ? 1 : 0;
        })};
      });
}

/// y = fast(x), except for float32 elements with |x| > 1e5, where y = exact(x). This costs time
/// only if there are such elements.
template <class Fast, class Exact, class RuleFn>
Tensor periodic(const char* name, const Tensor& x, Fast fast, Exact exact, RuleFn rule) {
  constexpr float limit = 1e5;
  if (x.dtype() != float32 || count_beyond(x, limit) == 0)
    return unary(name, x, saves_input(0), fast, rule);
  return unary(
      name, x, saves_input(0), [=](auto v) { return std::abs(v) <= limit ? fast(v) : exact(v); },
      rule);
}
}  // namespace

Tensor sin(const Tensor& x) {
  return periodic(
      "sin", x, [](auto v) { return kernel::sin(v); }, [](auto v) { return std::sin(v); },
      [](Backward& b) { b.give(0, b.grad() * cos(b.input(0))); });
}

Tensor cos(const Tensor& x) {
  return periodic(
      "cos", x, [](auto v) { return kernel::cos(v); }, [](auto v) { return std::cos(v); },
      [](Backward& b) { b.give(0, b.grad() * -sin(b.input(0))); });
}

Tensor tan(const Tensor& x) {
  return unary(
      "tan", x, saves_output, [](auto v) { return std::tan(v); },
      [](Backward& b) {
        const Tensor y = b.output();
        b.give(0, b.grad() * (y * y + 1.0));
      });
}

// d atan2(y, x) = (x dy - y dx) / (x^2 + y^2), 0 at (0, 0) and at infinity. x and y are divided by
// the larger one first, which counts as a constant, so that the squares stay in range.
Tensor atan2(const Tensor& y, const Tensor& x) {
  check_floating("atan2", y);
  return binary(
      "atan2", y, x, saves_inputs,
      [](auto v, auto u) {
        using T = decltype(v);
        // As kernels flush denormals, libm would divide 0 by 0.
        const auto flushed = [](T t) {
          return std::abs(t) < std::numeric_limits<T>::min() ? std::copysign(T{0}, t) : t;
        };
        return static_cast<T>(std::atan2(flushed(v), flushed(u)));
      },
      [](Backward& b) {
        const Tensor larger = maximum(abs(b.input(0).detach()), abs(b.input(1).detach()));
        const Tensor flat = (larger == 0) | (larger == std::numeric_limits<double>::infinity());
        const Tensor size = masked_fill(larger, flat, 1);
        const Tensor v = masked_fill(b.input(0) / size, flat, 0);
        const Tensor u = masked_fill(b.input(1) / size, flat, 0);
        const Tensor share = b.grad() / size / masked_fill(v * v + u * u, flat, 1);
        if (b.needs(0)) give_summed(b, 0, share * u);
        if (b.needs(1)) give_summed(b, 1, share * -v);
      });
}

Tensor softplus(const Tensor& x) {
  return unary(
      "softplus", x, saves_input(0), [](auto v) { return kernel::softplus(v); },
      [](Backward& b) { b.give(0, b.grad() * sigmoid(b.input(0))); });
}

Tensor leaky_relu(const Tensor& x, double slope) {
  return unary(
      "leaky_relu", x, saves_input(0),
      [slope](auto v) { return v * (v > 0 ? 1 : static_cast<decltype(v)>(slope)); },
      [slope](Backward& b) {
        b.give(0, where(gt(b.input(0).detach(), 0), b.grad(), b.grad() * slope));
      });
}

Tensor elu(const Tensor& x, double alpha) {
  return unary(
      "elu", x, saves_input(0),
      [alpha](auto v) { return kernel::elu(v, static_cast<decltype(v)>(alpha)); },
      [alpha](Backward& b) {
        // x is masked inside exp too, so that the gradient of exp is finite.
        const Tensor x = b.input(0), above = gt(x.detach(), 0);
        const Tensor below = exp(masked_fill(x, above, 0)) * alpha;
        b.give(0, b.grad() * masked_fill(below, above, 1));
      });
}

Tensor sign(const Tensor& x) {
  return stepwise("sign", x, [](auto v) {
    using T = decltype(v);
    return v > 0 ? T(1) : v < 0 ? T(-1) : v;  // NaN stays
  });
}

Tensor abs(const Tensor& x) {
  return unary(
      "abs", x, saves_input(0), [](auto v) { return std::abs(v); },
      [](Backward& b) { b.give(0, b.grad() * sign(b.input(0))); });
}

// erf'(x) = 2/sqrt(pi) exp(-x^2)
Tensor erf(const Tensor& x) {
  return unary(
      "erf", x, saves_input(0), [](auto v) { return kernel::erf(v); },
      [](Backward& b) {
        const Tensor x = b.input(0);
        b.give(0, b.grad() * (exp(-(x * x)) * (2 / std::sqrt(std::numbers::pi))));
      });
}

}  // namespace gradus
