#pragma once
// Defines one struct per activation, for the activation ops and for the ops that fuse an activation
// with other work: linear, feed_forward and recurrent. A new activation needs a struct and an entry
// of ActivationTable here, and an enum entry and a function in ops/activation.h.

#include <tuple>

#include "gradus/core/kernels/math.h"
#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/pointwise.h"

namespace gradus::core {

using kernel::ValueAndSlope;

// Each struct contains the name of its op. Its function at(x) returns the value and the slope (the
// derivative) at x, for kernels. Its function gradient() returns the gradient of the input. If
// from_output is true, the op saves its output y, and gradient(dy, y) accepts scalars or tensors.
// Otherwise the op saves its input x, and gradient(dy, x) accepts tensors only.

/// The identity y = x, for Activation::none. It has no `name`, because no op computes it.
struct Identity {
  static constexpr bool from_output = true;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return {x, T{1}};
  }
  template <class T>
  [[gnu::always_inline]] static T gradient(T dy, T) {
    return dy;
  }
};

struct Relu {
  static constexpr const char* name = "relu";
  static constexpr bool from_output = true;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return {x <= 0 ? T{0} : x, x <= 0 ? T{0} : T{1}};  // NaN stays NaN, with slope 1
  }
  template <class T>
  [[gnu::always_inline]] static T gradient(T dy, T y) {
    return y <= 0 ? T{0} : dy;
  }
  static Tensor gradient(const Tensor& dy, const Tensor& y) {
    return masked_fill(dy, le(y.detach(), 0), 0);
  }
};

struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr bool from_output = true;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    const T y = kernel::tanh(x);
    return {y, 1 - y * y};
  }
  template <class T>
  [[gnu::always_inline]] static T gradient(T dy, T y) {
    return dy * (1 - y * y);
  }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr bool from_output = true;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    const T y = kernel::sigmoid(x);
    return {y, y * (1 - y)};
  }
  template <class T>
  [[gnu::always_inline]] static T gradient(T dy, T y) {
    return dy * (y * (1 - y));
  }
};

// gelu'(x) = Phi(x) + x phi(x), where phi is the density of the standard normal distribution Phi.
struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr bool from_output = false;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return kernel::gelu_with_slope(x);
  }
  static Tensor gradient(const Tensor& dy, const Tensor& input) {
    const Tensor x = clamp(input, -40, 40);  // for |x| > 40 the slope rounds to 0 or 1
    const Tensor cdf = (erf(x * std::sqrt(0.5)) + 1.0) * 0.5;
    const Tensor pdf = exp(x * x * -0.5) * (1 / std::sqrt(2 * std::numbers::pi));
    return dy * (cdf + x * pdf);
  }
};

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  static constexpr bool from_output = false;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return kernel::gelu_tanh_with_slope(x);
  }
  static Tensor gradient(const Tensor& dy, const Tensor& input) {
    const Tensor x = clamp(input, -30, 30);  // for |x| > 30 the slope rounds to 0 or 1
    const double k = std::sqrt(2 / std::numbers::pi), c = 0.044715;
    const Tensor x2 = x * x, t = tanh(x * (1.0 + x2 * c) * k);
    const Tensor slope = (1.0 - t * t) * (1.0 + x2 * (3 * c)) * k;
    return dy * ((1.0 + t + x * slope) * 0.5);
  }
};

/// The activation x sigmoid(beta x). Its slope is s + beta s x (1 - s) with s = sigmoid(beta x).
template <int beta_in_thousandths>
struct Swish {
  static constexpr bool from_output = false;
  static constexpr double beta = beta_in_thousandths * 1e-3;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    const T b = static_cast<T>(beta), s = kernel::sigmoid(b * x);
    return {x * s, s + b * s * (x * (1 - s))};  // grouped so that no product overflows
  }
  static Tensor gradient(const Tensor& dy, const Tensor& x) {
    const Tensor s = sigmoid(x * beta);
    return dy * (s + s * beta * (x * (1.0 - s)));
  }
};
struct Silu : Swish<1000> {
  static constexpr const char* name = "silu";
};
struct QuickGelu : Swish<1702> {
  static constexpr const char* name = "quick_gelu";
};

// The activation relu(x)^2. gradient() takes the input x and not the output, because the output can
// underflow or overflow where the slope, 2 relu(x), does not.
struct ReluSquared {
  static constexpr const char* name = "relu_squared";
  static constexpr bool from_output = false;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    const T r = Relu::at(x).value;
    return {r * r, 2 * r};
  }
  static Tensor gradient(const Tensor& dy, const Tensor& x) { return dy * (relu(x) * 2.0); }
};

/// The structs of all activations, in the order of enum Activation.
using ActivationTable =
    std::tuple<Identity, Relu, Tanh, Sigmoid, Gelu, GeluTanh, Silu, QuickGelu, ReluSquared>;
static_assert(std::tuple_size_v<ActivationTable> == activations.size());

/// Calls f with an object of the activation's struct, and returns the result of f.
template <size_t i = 0, class F>
auto with_activation(Activation activation, F&& f) {
  if constexpr (i + 1 < activations.size())
    if (activation != activations[i]) return with_activation<i + 1>(activation, f);
  check(activation == activations[i], "activation: unknown activation ", int(activation));
  return f(std::tuple_element_t<i, ActivationTable>{});
}

}  // namespace gradus::core
