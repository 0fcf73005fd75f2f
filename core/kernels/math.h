#pragma once
// Elementary functions for vector loops: no branch, no call, no table, so that a loop over them in
// simd_for becomes straight vector code. The float versions are polynomials; the double versions
// call std::, so that one kernel template serves both float32 training and float64 gradient checks.
//
// Denormal arguments count as zero, and denormal results may be flushed to zero.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gradus::kernel {

/// A function's value and its slope at the same point.
template <class T>
struct ValueAndSlope {
  T value, slope;
};

namespace detail {

// a * b + c, rounded once where the target has a fused instruction, else twice.
[[gnu::always_inline]] inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// a * b + c, rounded once on every target: for argument reductions, where a * b must be exact.
[[gnu::always_inline]] inline float fused_multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return static_cast<float>(static_cast<double>(a) * b + c);
#endif
}

// c0 + c1 x + c2 x^2 + ... by Horner's rule.
[[gnu::always_inline]] inline float polynomial(float, float c0) { return c0; }
template <class... Floats>
[[gnu::always_inline]] inline float polynomial(float x, float c0, Floats... rest) {
  return multiply_add(polynomial(x, rest...), x, c0);
}

[[gnu::always_inline]] inline uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
[[gnu::always_inline]] inline float from_bits(uint32_t b) { return std::bit_cast<float>(b); }

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float smallest_normal = std::numeric_limits<float>::min();

// Adding and subtracting this rounds |x| < 2^22 to the nearest integer, which the low bits of the
// sum's representation then hold.
inline constexpr float round_to_integer = 0x1.8p23f;

}  // namespace detail

/// e^x within 1 ulp; 0 below log(2^-126), where the result would be denormal.
[[gnu::always_inline]] inline float exp(float x) {
  using namespace detail;
  const float shifted = fused_multiply_add(x, 0x1.715476p+0f, round_to_integer);
  const float n = shifted - round_to_integer;
  const float r = fused_multiply_add(n, -0x1.7f7d1cp-20f, fused_multiply_add(n, -0x1.62e4p-1f, x));
  const float p = polynomial(r, 1.0f, 1.0f, 0x1.fffffep-2f, 0x1.555494p-3f, 0x1.555640p-5f,
                             0x1.124084p-7f, 0x1.6d44eep-10f);
  float y = from_bits(bits(p) + (bits(shifted) << 23));
  y = x < -87.336544f ? 0.0f : y;
  return x <= 88.72283f ? y : x + infinity;
}
inline double exp(double x) { return std::exp(x); }

namespace detail {

// log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1], plus `more`.
[[gnu::always_inline]] inline float log_1_plus(float f, float more) {
  const float p = polynomial(f, 0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a036p-3f, -0x1.547226p-3f,
                             0x1.22d5dcp-3f, -0x1.0d81b8p-3f, 0x1.05758ap-3f, -0x1.390594p-4f);
  const float z = f * f;
  return f + multiply_add(z, multiply_add(f, p, -0.5f), more);
}

}  // namespace detail

/// The natural logarithm within 1 ulp: -infinity at 0, NaN below.
[[gnu::always_inline]] inline float log(float x) {
  using namespace detail;
  // x = 2^k m with m in [sqrt(1/2), sqrt(2))
  const uint32_t above = bits(x) - 0x3f3504f3u;
  const int32_t k = static_cast<int32_t>(above) >> 23;
  const float m = from_bits((above & 0x007fffffu) + 0x3f3504f3u);
  const float n = static_cast<float>(k);
  float y = multiply_add(n, 0x1.62e4p-1f, log_1_plus(m - 1.0f, n * 0x1.7f7d1cp-20f));
  y = x < smallest_normal ? -infinity : y;
  y = x < 0.0f ? nan : y;
  return x < infinity ? y : x;
}
inline double log(double x) { return std::log(x); }

/// The hyperbolic tangent within 2 ulp.
[[gnu::always_inline]] inline float tanh(float x) {
  using namespace detail;
  // tanh x = e / (e + 2) with e = exp(2x) - 1 = 2^n (1 + q) - 1
  float h = x > 10.0f ? 10.0f : x;
  h = h < -10.0f ? -10.0f : h;
  const float shifted = fused_multiply_add(h, 0x1.715476p+1f, round_to_integer);
  const float n = shifted - round_to_integer;
  const float r =
      fused_multiply_add(n, -0x1.7f7d1cp-20f, fused_multiply_add(n, -0x1.62e4p-1f, h + h));
  const float q = multiply_add(r * r,
                               polynomial(r, 0x1.fffffep-2f, 0x1.555494p-3f, 0x1.555640p-5f,
                                          0x1.124084p-7f, 0x1.6d44eep-10f),
                               r);
  const float scale = from_bits((bits(shifted) << 23) + 0x3f800000u);
  const float e = multiply_add(scale, q, scale - 1.0f);
  return e / (e + 2.0f);
}
inline double tanh(double x) { return std::tanh(x); }

/// The error function within 3 ulp.
[[gnu::always_inline]] inline float erf(float x) {
  using namespace detail;
  float c = x > 3.92f ? 3.92f : x;
  c = c < -3.92f ? -3.92f : c;
  const float t = multiply_add(c, c, -7.6875f);
  return c * polynomial(t, 3.606360532e-01f, -2.342235611e-02f, 2.268302072e-03f, -2.402741277e-04f,
                        2.593894808e-05f, -2.757318211e-06f, 2.830512005e-07f, -2.739899906e-08f,
                        2.437306543e-09f, -2.134581106e-10f, 1.975750725e-11f, -1.388586087e-12f,
                        4.513191980e-14f, -4.238510043e-15f, 8.373527630e-16f, -4.397285591e-17f);
}
inline double erf(double x) { return std::erf(x); }

/// 1 / (1 + e^-x) within 4 ulp.
[[gnu::always_inline]] inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// log(1 + e^x) within 4 ulp.
[[gnu::always_inline]] inline float softplus(float x) {
  using namespace detail;
  // max(x, 0) + log(1 + e^-|x|), the sum halved where it exceeds sqrt(2)
  const float e = exp(x < 0.0f ? x : -x);
  const bool large = e > 0.41421356f;
  const float f = large ? multiply_add(e, 0.5f, -0.5f) : e;
  return (x < 0.0f ? 0.0f : x) + log_1_plus(f, large ? 0x1.62e430p-1f : 0.0f);
}
inline double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

namespace detail {

// sin(x + (shifted's fraction) pi) ... see sin and cos.
[[gnu::always_inline]] inline float sin_reduced(float x, float n, float shifted) {
  float r = fused_multiply_add(n, -0x1.921fb6p+1f, x);
  r = fused_multiply_add(n, 0x1.777a5cp-24f, r);
  r = fused_multiply_add(n, 0x1.ee59dap-49f, r);
  const float z = r * r;
  const float p = polynomial(z, -0x1.55554cp-3f, 0x1.110ed4p-7f, -0x1.9f6f1ep-13f, 0x1.5da7b4p-19f);
  return from_bits(bits(multiply_add(r * z, p, r)) ^ (bits(shifted) << 31));
}

}  // namespace detail

/// sin x within 2 ulp for |x| <= 1e5.
[[gnu::always_inline]] inline float sin(float x) {
  using namespace detail;
  const float shifted = fused_multiply_add(x, 0x1.45f306p-2f, round_to_integer);
  return sin_reduced(x, shifted - round_to_integer, shifted);
}
inline double sin(double x) { return std::sin(x); }

/// cos x within 2 ulp for |x| <= 1e5.
[[gnu::always_inline]] inline float cos(float x) {
  using namespace detail;
  // cos x = -sin(x - n pi) (-1)^(n + 1/2) with n half an odd number
  const float half = fused_multiply_add(x, 0x1.45f306p-2f, 0.5f);
  const float shifted = half + round_to_integer;
  return sin_reduced(x, shifted - round_to_integer - 0.5f, shifted);
}
inline double cos(double x) { return std::cos(x); }

/// x Phi(x), with Phi the normal distribution function (1 + erf(x / sqrt 2)) / 2.
[[gnu::always_inline]] inline float gelu_erf(float x) {
  using namespace detail;
  const float c = x > 5.6f ? 5.6f : x;
  const float t = multiply_add(c, c, -15.6875f);
  const float q =
      polynomial(t, 1.262294456e-01f, -4.018263553e-03f, 1.908630528e-04f, -9.930776178e-06f,
                 5.277969980e-07f, -2.769723339e-08f, 1.406656288e-09f, -6.741902944e-11f,
                 2.983898040e-12f, -1.312125619e-13f, 5.998842719e-15f, -2.029550372e-16f,
                 3.373924375e-18f, -1.799131947e-19f, 1.576838274e-20f, -3.883199415e-22f);
  const float y = x * multiply_add(c, q, 0.5f);
  return x < -5.6f ? 0.0f : y;
}
inline double gelu_erf(double x) { return 0.5 * x * (1.0 + std::erf(x * 0.70710678118654752440)); }

/// The derivative of gelu_erf: Phi(x) + x phi(x), with phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
[[gnu::always_inline]] inline float gelu_erf_derivative(float x) {
  using namespace detail;
  const float c = x > 6.0f ? 6.0f : x;
  const float t = multiply_add(c, c, -18.0f);
  const float q = polynomial(
      t, 1.178977614e-01f, -3.296822754e-03f, 1.421534573e-04f, -7.264323391e-06f, 4.244348432e-07f,
      -2.695659416e-08f, 1.725690226e-09f, -1.050462664e-10f, 6.067720269e-12f, -3.314903497e-13f,
      1.524827390e-14f, -5.654020195e-16f, 2.714730370e-17f, -1.583237812e-18f, 4.277151712e-20f,
      2.416582057e-22f, 1.553091338e-23f, -3.152217164e-24f, 7.044176773e-26f);
  const float y = multiply_add(c, q, 0.5f);
  return x < -6.0f ? 0.0f : y;
}
inline double gelu_erf_derivative(double x) {
  return 0.5 * (1.0 + std::erf(x * 0.70710678118654752440)) +
         x * std::exp(-0.5 * x * x) * 0.39894228040143267794;
}

/// gelu_erf and its derivative at once.
template <class T>
[[gnu::always_inline]] inline ValueAndSlope<T> gelu_erf_with_slope(T x) {
  return {gelu_erf(x), gelu_erf_derivative(x)};
}

/// x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), which is x (1 + tanh u) / 2.
template <class T>
[[gnu::always_inline]] inline T gelu_tanh(T x) {
  const T u2 = x * (T(1.5957691216057308) + T(0.0713548162726009) * x * x);
  return x * sigmoid(u2);
}

/// The derivative of gelu_tanh.
template <class T>
[[gnu::always_inline]] inline T gelu_tanh_derivative(T x) {
  const T z = x * x;
  const T s = sigmoid(x * (T(1.5957691216057308) + T(0.0713548162726009) * z));
  const T du2 = T(1.5957691216057308) + T(0.2140644488178027) * z;
  return s + x * s * (T(1) - s) * du2;
}

/// gelu_tanh and its derivative at once.
template <class T>
[[gnu::always_inline]] inline ValueAndSlope<T> gelu_tanh_with_slope(T x) {
  const T z = x * x;
  const T s = sigmoid(x * (T(1.5957691216057308) + T(0.0713548162726009) * z));
  const T du2 = T(1.5957691216057308) + T(0.2140644488178027) * z;
  return {x * s, s + x * s * (T(1) - s) * du2};
}

}  // namespace gradus::kernel
