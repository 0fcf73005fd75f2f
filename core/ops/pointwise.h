#pragma once
// Elementwise arithmetic and functions. Comparisons, where and masked_fill are in comparison.h.
// Tensors broadcast as in NumPy and must have the same dtype. +, -, *, square, maximum and minimum
// take float32, float64 and int64 tensors; the other ops take float32 and float64. A C++ number is
// converted to the tensor's dtype. If that is int64, the number must be an integer. int64
// arithmetic wraps around on overflow, as in NumPy.

#include "gradus/core/ops/comparison.h"
#include "gradus/core/ops/factories.h"

namespace gradus {

///@{
/// Returns a + b, a - b, a * b, a / b or -x, elementwise. Division throws Error for int64.
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& x);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);
///@}

///@{
/// Returns a^b, elementwise.
Tensor pow(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& x, double exponent);
///@}
/// Returns x * x.
inline Tensor square(const Tensor& x) { return x * x; }
///@{
/// Returns the elementwise maximum (minimum). If two elements are equal, each gets half of the
/// gradient. If either is NaN, the result is NaN and both get the whole gradient, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& x, double bound);
Tensor minimum(const Tensor& x, double bound);
///@}
/// Returns x clamped to [low, high]. NaN stays NaN. The gradient flows where low <= x <= high.
/// Throws Error unless low <= high.
Tensor clamp(const Tensor& x, double low, double high);

///@{
/// Returns (1 - weight) a + weight b. The weight may be outside [0, 1]. Where a equals b, the
/// result is a, even if a is infinite. Where a and b are the same infinity, the gradient of the
/// weight is NaN.
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
///@}

///@{
/// Returns e^x, the natural logarithm or the square root of x. The logarithm and the square root of
/// a negative number are NaN.
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
///@}
/// Returns 1 / sqrt(x).
Tensor rsqrt(const Tensor& x);
///@{
/// Returns log(1 + x) or e^x - 1, accurate near 0.
Tensor log1p(const Tensor& x);
Tensor expm1(const Tensor& x);
///@}
///@{
/// Returns each element rounded to an integer: down, up, or to the nearest (ties to even). The
/// gradient is 0 everywhere, so the result does not require grad.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);
///@}
///@{
/// Returns the sine, cosine or tangent of an angle in radians.
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
///@}
/// Returns the angle in [-pi, pi] between the positive x axis and the point (x, y). The gradient is
/// 0 at (0, 0) and where x or y is infinite.
Tensor atan2(const Tensor& y, const Tensor& x);
/// Returns log(1 + e^x), without overflow.
Tensor softplus(const Tensor& x);
/// Returns x where x > 0, else slope * x. The derivative at 0 is slope. Maas, Hannun, Ng 2013.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// Returns x where x > 0, else alpha * (e^x - 1). The derivative at 0 is alpha. Clevert,
/// Unterthiner, Hochreiter 2015, arXiv 1511.07289.
Tensor elu(const Tensor& x, double alpha = 1);
/// Returns |x|. The gradient at 0 is 0.
Tensor abs(const Tensor& x);
/// Returns the sign of x: -1, 0 or 1. NaN stays NaN. The gradient is 0 everywhere, so the result
/// does not require grad.
Tensor sign(const Tensor& x);
/// Returns the error function: 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.
Tensor erf(const Tensor& x);

}  // namespace gradus
