#pragma once
// Every activation in one place: its value and slope for kernels, and its gradient as ops write it.
// Pointwise ops and fused layers both use these. A new one is a struct here with its case below, a
// name in ops/activation.h, and its op in activation.cpp.

#include <cmath>
#include <numbers>

#include "gradus/core/kernels/math.h"
#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/pointwise.h"

namespace gradus::core {

using kernel::ValueAndSlope;

/// name, op; at(x), the value and the slope. An activation whose gradient is seen from its output
/// y, so that nothing else is kept for backward, has from_output, gradient(dy, y) for numbers, and
/// for tensors as ops. Another one's gradient(dy, x) is made of its input.
struct Identity {
  static constexpr const char* name = "none";
  static Tensor op(const Tensor& x) { return x; }
  static constexpr bool from_output = true;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return {x, T{1}};
  }
  template <class T>
  [[gnu::always_inline]] static T gradient(T dy, T) {
    return dy;
  }
  static Tensor gradient(const Tensor& dy, const Tensor&) { return dy; }
};

struct Relu {
  static constexpr const char* name = "relu";
  static Tensor op(const Tensor& x) { return gradus::relu(x); }
  static constexpr bool from_output = true;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return {x > 0 || x != x ? x : T{0}, x > 0 ? T{1} : T{0}};
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
  static Tensor op(const Tensor& x) { return gradus::tanh(x); }
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
  static Tensor gradient(const Tensor& dy, const Tensor& y) { return dy * (1.0 - y * y); }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static Tensor op(const Tensor& x) { return gradus::sigmoid(x); }
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
  static Tensor gradient(const Tensor& dy, const Tensor& y) { return dy * (y * (1.0 - y)); }
};

// gelu'(x) = Phi(x) + x phi(x), phi the normal density
struct Gelu {
  static constexpr const char* name = "gelu";
  static Tensor op(const Tensor& x) { return gradus::gelu(x); }
  static constexpr bool from_output = false;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return kernel::gelu_with_slope(x);
  }
  static Tensor gradient(const Tensor& dy, const Tensor& x) {
    const Tensor cdf = (erf(x * std::sqrt(0.5)) + 1.0) * 0.5;
    const Tensor pdf = exp(x * x * -0.5) * (1 / std::sqrt(2 * std::numbers::pi));
    return dy * (cdf + x * pdf);
  }
};

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  static Tensor op(const Tensor& x) { return gradus::gelu_tanh(x); }
  static constexpr bool from_output = false;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    return kernel::gelu_tanh_with_slope(x);
  }
  static Tensor gradient(const Tensor& dy, const Tensor& x) {
    const double k = std::sqrt(2 / std::numbers::pi), c = 0.044715;
    const Tensor x2 = x * x, t = tanh(x * (1.0 + x2 * c) * k);
    const Tensor slope = (1.0 - t * t) * (1.0 + x2 * (3 * c)) * k;
    return dy * ((1.0 + t + x * slope) * 0.5);
  }
};

/// x sigmoid(beta x), with slope s + beta x s (1 - s), s = sigmoid(beta x).
template <int beta_in_thousandths>
struct Swish {
  static constexpr bool from_output = false;
  static constexpr double beta = beta_in_thousandths * 1e-3;
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T x) {
    const T u = static_cast<T>(beta) * x, s = kernel::sigmoid(u);
    return {x * s, s * (1 + u * (1 - s))};
  }
  static Tensor gradient(const Tensor& dy, const Tensor& x) {
    const Tensor u = x * beta, s = sigmoid(u);
    return dy * (s * (1.0 + u * (1.0 - s)));
  }
};
struct Silu : Swish<1000> {
  static constexpr const char* name = "silu";
  static Tensor op(const Tensor& x) { return gradus::silu(x); }
};
struct QuickGelu : Swish<1702> {
  static constexpr const char* name = "quick_gelu";
  static Tensor op(const Tensor& x) { return gradus::quick_gelu(x); }
};

/// f(the activation's struct).
template <class F>
decltype(auto) with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::none:
      return f(Identity{});
    case Activation::relu:
      return f(Relu{});
    case Activation::tanh:
      return f(Tanh{});
    case Activation::sigmoid:
      return f(Sigmoid{});
    case Activation::gelu:
      return f(Gelu{});
    case Activation::gelu_tanh:
      return f(GeluTanh{});
    case Activation::silu:
      return f(Silu{});
    case Activation::quick_gelu:
      return f(QuickGelu{});
  }
  fail("activation: no activation has the number ", static_cast<int>(activation));
}

}  // namespace gradus::core
