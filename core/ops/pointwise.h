#pragma once
// Elementwise arithmetic, comparison, selection and functions. Tensors broadcast as in NumPy and
// must have the same dtype. A C++ number takes the tensor's dtype. int64 arithmetic wraps around on
// overflow, as in NumPy.

#include "gradus/core/ops/factories.h"

namespace gradus {

///@{
/// Elementwise arithmetic. Division throws Error for int64.
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
///@{
/// Returns the elementwise maximum (minimum). If two elements are equal, each gets half of the
/// gradient. If either is NaN, the result is NaN and both get the whole gradient, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& x, double bound);
Tensor minimum(const Tensor& x, double bound);
///@}
/// Returns x clamped to [low, high]. NaN stays NaN. The gradient flows where low <= x <= high.
Tensor clamp(const Tensor& x, double low, double high);

///@{
/// Returns an elementwise comparison or logical operation as a bool tensor without a gradient.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, double b);
Tensor ne(const Tensor& a, double b);
Tensor lt(const Tensor& a, double b);
Tensor le(const Tensor& a, double b);
Tensor gt(const Tensor& a, double b);
Tensor ge(const Tensor& a, double b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
///@}
///@{
/// Comparisons as operators, for two tensors or a tensor and a number. They return a tensor, so `if
/// (a == b)` does not compile: write `if (all(a == b).item<bool>())`.
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator==(const Tensor& a, double b) { return eq(a, b); }
inline Tensor operator==(double a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator!=(const Tensor& a, double b) { return ne(a, b); }
inline Tensor operator!=(double a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return lt(a, b); }
inline Tensor operator<(double a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return le(a, b); }
inline Tensor operator<=(double a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return gt(a, b); }
inline Tensor operator>(double a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return ge(a, b); }
inline Tensor operator>=(double a, const Tensor& b) { return le(b, a); }
///@}
///@{
/// logical_not, logical_and and logical_or of bool tensors as operators. Next to & and |,
/// comparisons need parentheses: (x > 0) & (x < 1).
inline Tensor operator!(const Tensor& x) { return logical_not(x); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
///@}
/// Returns a bool tensor that is true where x is NaN.
Tensor isnan(const Tensor& x);

/// Returns a where the bool tensor `condition` is true, and b elsewhere.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// Returns x, but `value` where the bool tensor `mask` (broadcast to x) is true. There the gradient
/// is 0.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

///@{
/// Returns e^x, the natural logarithm or the square root; NaN outside the domain, as in C++.
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
/// Rounds down, up, or to nearest (ties to even). The gradient is 0 and is not recorded.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);
///@}
///@{
/// Returns the sine or cosine of an angle in radians.
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
///@}
/// Returns log(1 + e^x), without overflow.
Tensor softplus(const Tensor& x);
/// Returns x where x > 0, else slope * x. The derivative at 0 is slope. Maas, Hannun, Ng 2013.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// Returns x where x > 0, else alpha * (e^x - 1). Clevert, Unterthiner, Hochreiter 2015, arXiv
/// 1511.07289.
Tensor elu(const Tensor& x, double alpha = 1);
/// Returns |x|. The gradient at 0 is 0.
Tensor abs(const Tensor& x);
/// Returns the sign of x: -1, 0 or 1. NaN stays NaN. The gradient is 0 and is not recorded.
Tensor sign(const Tensor& x);
/// Returns the error function: 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.
Tensor erf(const Tensor& x);

}  // namespace gradus
