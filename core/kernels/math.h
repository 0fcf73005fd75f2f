#pragma once
// Elementary functions for vector loops. The float versions are polynomials without branches, calls
// or tables, so that simd_for turns a loop over them into vector code. The double versions call
// std::, so that one kernel template serves float32 training and float64 gradient checks.
//
// With FMA, the error of a float function is at most the number of ulp (units in the last place of
// the result) that its comment states, if any. The number in parentheses is the maximum error
// measured against double precision over every 13th float. Without FMA the maximum error is up to
// 0.3 ulp larger, which may exceed the stated number, as for erf. Except for the sign of sin(-0),
// the functions are correct at zeros, infinities, NaN and where the result over- or underflows.
// Denormal arguments count as zero, and denormal results may be flushed to zero, as in all kernels.
// The polynomials are minimax fits (Remez algorithm in 50 digits) with rounded coefficients. The
// coefficients of exp, erf and gelu were then improved by a random search over neighbouring floats
// for the smallest maximum error of the float evaluation.
//
// The float functions use select() instead of ternaries. g++ may turn a ternary into a branch that
// contains the work of one arm, and then does not vectorise the loop. The same applies to ternaries
// around calls of these functions.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace gradus::kernel {

/// A function's value and derivative at one point.
template <class T>
struct ValueAndSlope {
  T value, slope;
};

namespace detail {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float smallest_normal = std::numeric_limits<float>::min();

// log2_e is log2(e). ln2_high + ln2_low is log(2); n * ln2_high is exact for integers |n| < 2^9.
inline constexpr float log2_e = 0x1.715476p+0f, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;

// For |x| < 2^22, the low bits of the sum x + shift are x rounded to an integer. Subtracting shift
// from the sum gives that integer as a float.
inline constexpr float shift = 0x1.8p+23f;

[[gnu::always_inline]] inline uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
[[gnu::always_inline]] inline float from_bits(uint32_t b) { return std::bit_cast<float>(b); }

// Returns condition ? a : b after computing both a and b. Only the mask depends on the condition,
// so that no compiler moves the computation of a or b into a branch.
[[gnu::always_inline]] inline float select(bool condition, float a, float b) {
  const uint32_t mask = condition ? 0xffffffffu : 0u;
  return from_bits((bits(a) & mask) | (bits(b) & ~mask));
}

// Returns `magnitude` with the sign of x. `magnitude` must be >= 0.
[[gnu::always_inline]] inline float with_sign_of(float x, float magnitude) {
  return from_bits(bits(magnitude) | (bits(x) & 0x80000000u));
}
[[gnu::always_inline]] inline float absolute(float x) { return from_bits(bits(x) & 0x7fffffffu); }
// Returns the minimum of `most` and x, or `most` if x is NaN. `most` must be >= 0, and x must be
// >= 0 or NaN. Floats >= 0 have the same order as their bits, and the minimum of integers is one
// instruction.
[[gnu::always_inline]] inline float at_most(float most, float x) {
  return from_bits(std::min(bits(most), bits(x)));
}

#if defined(__FMA__) || defined(__aarch64__) || defined(__FP_FAST_FMAF)
inline constexpr bool has_fma = true;
// Returns a * b + c rounded once.
[[gnu::always_inline]] inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
// Returns a * b + c rounded once or twice, whichever is faster.
[[gnu::always_inline]] inline float multiply_add(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
#else
inline constexpr bool has_fma = false;
[[gnu::always_inline]] inline float fused(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * b + c);
}
[[gnu::always_inline]] inline float multiply_add(float a, float b, float c) { return a * b + c; }
#endif

// Returns c0 + c1 x + c2 x^2 + ..., computed by Horner's rule.
[[gnu::always_inline]] inline float polynomial(float, float c0) { return c0; }
template <class... Floats>
[[gnu::always_inline]] inline float polynomial(float x, float c0, Floats... rest) {
  return multiply_add(polynomial(x, rest...), x, c0);
}

// cubics(x, x^2, x^4, c0, c1, c2, ...) returns c0 + c1 x + c2 x^2 + ... for 4, 8, 12, ...
// coefficients, computed by Estrin's scheme, four coefficients at a time. With 12 coefficients, it
// takes two more multiplications than Horner's rule (for x^2 and x^4), but the dependency chain is
// about a third as long: short enough for out-of-order execution to hide. This overload takes the
// last four coefficients and does not need x^4.
// Long parameter list: a polynomial's coefficients.
[[gnu::always_inline]] inline float cubics(float x, float x2, float, float c0, float c1, float c2,
                                           float c3) {
  return multiply_add(multiply_add(c3, x, c2), x2, multiply_add(c1, x, c0));
}
// Returns c0 + c1 x + c2 x^2 + ... for 8, 12, ... coefficients, by recursion.
// Long parameter list: a polynomial's coefficients.
template <class... Floats>
[[gnu::always_inline]] inline float cubics(float x, float x2, float x4, float c0, float c1,
                                           float c2, float c3, Floats... rest) {
  return multiply_add(cubics(x, x2, x4, rest...), x4, cubics(x, x2, x4, c0, c1, c2, c3));
}
template <class... Floats>
[[gnu::always_inline]] inline float long_polynomial(float x, Floats... c) {
  const float x2 = x * x;
  return cubics(x, x2, x2 * x2, c...);
}

// Returns e^x for -87.33 <= x <= 88.72. Splits x into n log 2 + r with |r| <= log(2) / 2, computes
// e^r by a polynomial and adds n to its exponent.
[[gnu::always_inline]] inline float exp_in_range(float x) {
  const float shifted = fused(x, log2_e, shift), n = shifted - shift;
  const float r = fused(n, -ln2_low, fused(n, -ln2_high, x));
  const float p = polynomial(r, 1.0f, 1.0f, 0x1.fffffep-2f, 0x1.55546ap-3f, 0x1.5555e2p-5f,
                             0x1.124f7cp-7f, 0x1.6d016p-10f);
  return from_bits(bits(p) + (bits(shifted) << 23));
}

// Returns base + log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1].
[[gnu::always_inline]] inline float add_log1p(float base, float f) {
  const float p = polynomial(f, 0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a036p-3f, -0x1.547226p-3f,
                             0x1.22d5dcp-3f, -0x1.0d81b8p-3f, 0x1.05758ap-3f, -0x1.390594p-4f);
  return f + multiply_add(f * f, multiply_add(f, p, -0.5f), base);
}

// Returns sin(x + quarters * pi / 2). Reduces x to r = x - n * pi / 2 with |r| <= pi / 4. pi / 2 is
// split into three parts. The product of n with the first part is exact, and so is the difference
// between x and this product.
[[gnu::always_inline]] inline float sin_from(float x, uint32_t quarters) {
  const float shifted = fused(x, 0x1.45f306p-1f, shift), n = shifted - shift;
  float r = fused(n, -0x1.921fb6p+0f, x);
  r = fused(n, 0x1.777a5cp-25f, r);
  r = fused(n, 0x1.ee59dap-50f, r);
  const float z = r * r;
  const float sine =
      multiply_add(r, z * polynomial(z, -1.666665408e-01f, 8.332122003e-03f, -1.950953983e-04f), r);
  const float cosine =
      polynomial(z, 1.0f, -0.5f, 4.166664410e-02f, -1.388723830e-03f, 2.442417799e-05f);
  const uint32_t quarter = bits(shifted) + quarters;
  const float y = select(quarter & 1u, cosine, sine);
  return from_bits(bits(y) ^ ((quarter & 2u) << 30));
}

}  // namespace detail

/// Returns e^x within 1 ulp (measured: 0.89), and 0 where e^x is denormal.
[[gnu::always_inline]] inline float exp(float x) {
  using namespace detail;
  float y = exp_in_range(x);
  y = select(x < -0x1.5d589ep+6f, 0.0f, y);
  return select(x <= 0x1.62e42ep+6f, y, x + infinity);
}
inline double exp(double x) { return std::exp(x); }

/// Returns the natural logarithm within 1 ulp (measured: 0.86); -infinity for x = 0, NaN for x < 0.
[[gnu::always_inline]] inline float log(float x) {
  using namespace detail;
  // x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))
  const uint32_t above = bits(x) - 0x3f3504f3u;
  const int32_t exponent = static_cast<int32_t>(above) >> 23;
  const float n = from_bits(bits(shift) + static_cast<uint32_t>(exponent)) - shift;
  const float f = from_bits((above & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float special = select(x < smallest_normal, -infinity, 0.0f);
  special = select(x < 0.0f, nan, special);
  special = select(x < infinity, special, x);
  return multiply_add(n, ln2_high, add_log1p(multiply_add(n, ln2_low, special), f));
}
inline double log(double x) { return std::log(x); }

/// Returns log(1 + x) within 2 ulp (measured: 1.26); -infinity for x = -1, NaN for x < -1.
[[gnu::always_inline]] inline float log1p(float x) {
  using namespace detail;
  // Near 0, the result is the polynomial of add_log1p. Elsewhere it is log(u + lost), about log u +
  // lost / u, where u is 1 + x rounded and `lost` is the rounding error.
  const float u = 1.0f + x, lost = x - (u - 1.0f);
  const float far = log(u) + lost / select(u == 0.0f, 1.0f, u);
  float y = select(absolute(x - 0.0607f) < 0.3535f, add_log1p(0.0f, x), far);
  y = select(absolute(x) < 0x1p-26f, x, y);
  return select(x < infinity, y, x);
}
inline double log1p(double x) { return std::log1p(x); }

/// Returns e^x - 1 within 2 ulp (measured: 1.48).
[[gnu::always_inline]] inline float expm1(float x) {
  using namespace detail;
  // With x = n log 2 + r as in exp, e^x - 1 = 2^n (e^r - 1) + (2^n - 1). The code adds halves of
  // the two terms and doubles the sum, because 2^128 is not a float.
  float c = select(x < -20.0f, -20.0f, x);
  c = select(c > 88.8f, 88.8f, c);
  const float shifted = fused(c, log2_e, shift), n = shifted - shift;
  const float r = fused(n, -ln2_low, fused(n, -ln2_high, c));
  const float p =
      polynomial(r, 0x1.fffffep-2f, 0x1.55546ap-3f, 0x1.5555e2p-5f, 0x1.124f7cp-7f, 0x1.6d016p-10f);
  const float power = from_bits((bits(shifted) << 23) + bits(0.5f));
  const float y = 2.0f * multiply_add(power, multiply_add(r * r, p, r), power - 0.5f);
  return select(absolute(x) < 0x1p-26f, x, y);
}
inline double expm1(double x) { return std::expm1(x); }

/// Returns x if x > 0, else alpha (e^x - 1).
[[gnu::always_inline]] inline float elu(float x, float alpha) {
  using namespace detail;
  return select(x > 0.0f, x, alpha * expm1(select(x > 0.0f, 0.0f, x)));
}
inline double elu(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }

/// Returns the hyperbolic tangent within 2 ulp (measured: 1.50).
[[gnu::always_inline]] inline float tanh(float x) {
  using namespace detail;
  // Let a = |x| and 2a = n log 2 + 2r. With q = (exp(2r) - 1) / 2 and
  // e = (exp(2a) - 1) / 2 = 2^n q + (2^n - 1) / 2, tanh a = e / (e + 1).
  float a = absolute(x);
  a = select(a > 10.0f, 10.0f, a);
  const float shifted = fused(a, 2.0f * log2_e, shift), n = shifted - shift;
  const float r = fused(n, -0.5f * ln2_low, fused(n, -0.5f * ln2_high, a));
  const float p =
      polynomial(r, 0x1.fffffep-1f, 0x1.55546ap-1f, 0x1.5555e2p-2f, 0x1.124f7cp-3f, 0x1.6d016p-5f);
  const float q = multiply_add(r * r, p, r);
  const float power = from_bits((bits(shifted) << 23) + bits(1.0f));
  const float e = multiply_add(power, q, multiply_add(power, 0.5f, -0.5f));
  // Below 0.3, a + a^3 times a polynomial in a^2 is more accurate.
  const float z = a * a;
  const float small =
      multiply_add(a, z * polynomial(z, -3.333300312e-01f, 1.331232906e-01f, -5.013447345e-02f), a);
  const float numerator = select(a < 0.3f, small, e);
  const float denominator = select(a < 0.3f, 1.0f, e + 1.0f);
  return with_sign_of(x, numerator / denominator);
}
inline double tanh(double x) { return std::tanh(x); }

/// Returns the error function within 3 ulp (measured: 2.97); 1 for x >= 3.923, -1 for x <= -3.923.
[[gnu::always_inline]] inline float erf(float x) {
  using namespace detail;
  float a = absolute(x);
  a = select(a > 3.923f, 3.923f, a);
  const float q = polynomial(
      a - 2.25f, 4.437943399e-01f, -1.940675825e-01f, 7.911016047e-02f, -2.550435439e-02f,
      2.852169797e-03f, 3.467360744e-03f, -2.827389166e-03f, 9.626634419e-04f, 1.011940731e-05f,
      -1.737616985e-04f, 7.695215754e-05f, -1.454144353e-06f, -1.159073963e-05f, 2.861695293e-06f,
      8.124372926e-07f, -2.987225969e-07f, -2.835169255e-08f, 9.622075581e-09f);
  return with_sign_of(x, a * q);
}
inline double erf(double x) { return std::erf(x); }

/// Returns 1 / (1 + e^-x) within 3 ulp (measured: 2.49).
template <class T>
[[gnu::always_inline]] inline T sigmoid(T x) {
  return T{1} / (T{1} + exp(-x));
}

/// Returns log(1 + e^x) within 3 ulp (measured: 2.34).
[[gnu::always_inline]] inline float softplus(float x) {
  using namespace detail;
  // The result is max(x, 0) + log(1 + e) with e = exp(-|x|). If 1 + e exceeds sqrt(2), log(1 + e)
  // is computed as log((1 + e) / 2) + log 2.
  const float e = exp(-absolute(x));
  const float half = select(e > 0.41421356f, 0.5f, 1.0f);
  const float log_of_2 = multiply_add(half, -0x1.62e43p+0f, 0x1.62e43p+0f);
  return select(x < 0.0f, 0.0f, x) + add_log1p(log_of_2, multiply_add(e, half, half - 1.0f));
}
inline double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

/// Returns sin x within 2 ulp (measured: 1.54) for |x| <= 1e5, and +0 for x = -0. The error grows
/// with |x|. For |x| >= 6.5e6 the result is meaningless: use std::sin there.
[[gnu::always_inline]] inline float sin(float x) { return detail::sin_from(x, 0); }
inline double sin(double x) { return std::sin(x); }

/// Returns cos x within 2 ulp (measured: 1.54) for |x| <= 1e5. The error grows with |x|. For
/// |x| >= 6.5e6 the result is meaningless: use std::cos there.
[[gnu::always_inline]] inline float cos(float x) { return detail::sin_from(x, 1); }
inline double cos(double x) { return std::cos(x); }

// ---- GELU: x Phi(x), where Phi is the normal distribution function and phi its density ----

/// Returns GELU, x Phi(x), and its derivative Phi(x) + x phi(x). Phi is the distribution function
/// and phi the density of the standard normal distribution.
[[gnu::always_inline]] inline ValueAndSlope<float> gelu_with_slope(float x) {
  using namespace detail;
  float a = absolute(x);
  a = select(a > 13.265f, 13.265f, a);
  // e = exp(-z / 2) = 2^n p, where z = a^2 = r - 2 n log 2 and p = exp(-r / 2). At the largest a, n
  // is -127 and p is above 1, so e is denormal and counts as zero (see the top of this file).
  const float z = a * a;
  const float shifted = fused(z, -0.5f * log2_e, shift), n = shifted - shift;
  const float r = fused(n, 0x1.62e43p+0f, z);
  const float p = polynomial(r, 1.0f, -0x1.ffffeep-2f, 0x1.fffdbap-4f, -0x1.555d46p-6f,
                             0x1.573d44p-9f, -0x1.0eb4ap-12f);
  const float e = from_bits(bits(p) + (bits(shifted) << 23));
  // Phi(-a) = e * mills and phi(a) = e / sqrt(2 pi). `mills` approximates the Mills ratio Phi(-a) /
  // phi(a), divided by sqrt(2 pi), for a <= 5. For larger a, `mills` is constant and at most 2.6
  // times the true value. This does not matter: |x Phi(x)| is below 1.5e-6 for x < -5.
  const float mills = long_polynomial(at_most(5.0f, a), 0.5f, -3.989403266e-01f, 2.499640042e-01f,
                                      -1.327508708e-01f, 6.176733329e-02f, -2.522864930e-02f,
                                      8.778833025e-03f, -2.460903288e-03f, 5.173573612e-04f,
                                      -7.472646016e-05f, 6.505171067e-06f, -2.545764398e-07f);
  const float value = multiply_add(-a, e * mills, select(x < 0.0f, 0.0f, x));
  const float slope_at_minus_a = e * multiply_add(a, -3.989422804e-01f, mills);
  return {value, select(x < 0.0f, slope_at_minus_a, 1.0f - slope_at_minus_a)};
}

/// Returns GELU in the tanh approximation, x (1 + tanh u) / 2 = x sigmoid(2u), and its derivative,
/// where u = sqrt(2 / pi) (x + 0.044715 x^3).
[[gnu::always_inline]] inline ValueAndSlope<float> gelu_tanh_with_slope(float x) {
  using namespace detail;
  // For x > 9.9, s = sigmoid(2u) rounds to 1. For x <= -10.05, s is denormal or 0. Denormals count
  // as zero (see the top of this file), so the value and the slope are 0.
  const float low = select(x < -10.05f, -10.05f, x);
  const float c = select(low > 9.9f, 9.9f, low);
  const float z = c * c;
  const float e = exp_in_range(c * multiply_add(z, -0.07135481627f, -1.595769122f));
  const float s = 1.0f / (1.0f + e);
  const float du = multiply_add(z, 0.2140644488f, 1.595769122f);
  return {low * s, multiply_add(c * du, e * s * s, s)};
}

inline ValueAndSlope<double> gelu_with_slope(double x) {
  // For |x| > 40, Phi(x) and the slope are both 1 or both 0.
  const double low = x < -40 ? -40 : x, c = low > 40 ? 40 : low;
  const double cdf = 0.5 * std::erfc(-c / std::numbers::sqrt2);
  const double pdf = std::exp(-0.5 * c * c) / std::sqrt(2 * std::numbers::pi);
  return {low * cdf, cdf + c * pdf};
}
inline ValueAndSlope<double> gelu_tanh_with_slope(double x) {
  // For |x| > 30, s is exactly 1 or 0. Clamping keeps z finite, so that the slope is not
  // 0 * infinity.
  const double low = x < -30 ? -30 : x, c = low > 30 ? 30 : low;
  const double k = 2 * std::sqrt(2 / std::numbers::pi), z = c * c;
  const double s = sigmoid(k * c * (1 + 0.044715 * z));
  return {low * s, s + c * s * (1 - s) * k * (1 + 3 * 0.044715 * z)};
}

}  // namespace gradus::kernel
