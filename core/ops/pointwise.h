#pragma once
// Elementwise arithmetic, comparison, selection and functions. Tensors broadcast as in NumPy and
// must have the same dtype; a C++ number takes the tensor's dtype. int64 arithmetic wraps around on
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
/// a^b, elementwise.
Tensor pow(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& x, double exponent);
///@}
///@{
/// The elementwise maximum (minimum). Equal elements each get half of the gradient. If either is
/// NaN, the result is NaN and both get the whole gradient, as in PyTorch.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& x, double bound);
Tensor minimum(const Tensor& x, double bound);
///@}
/// x clamped to [low, high]; NaN stays NaN. The gradient passes where low <= x <= high.
Tensor clamp(const Tensor& x, double low, double high);

///@{
/// Elementwise comparison and logic, as a bool tensor without a gradient.
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
/// The comparisons as operators, for two tensors or a tensor and a number. The result is a tensor,
/// so `if (a == b)` does not compile; write `if (all(a == b).item<bool>())`.
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
/// logical_not, logical_and and logical_or of bool tensors. Comparisons next to & and | need
/// parentheses: (x > 0) & (x < 1).
inline Tensor operator!(const Tensor& x) { return logical_not(x); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
///@}
/// True where x is NaN.
Tensor isnan(const Tensor& x);

/// a where the bool tensor `condition` is true, b elsewhere.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// x with `value` where the bool tensor `mask` (broadcast to x) is true; the gradient is 0 there.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

///@{
/// e^x, the natural logarithm and the square root; NaN outside their domain, as in C++.
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
///@}
/// 1 / sqrt(x)
Tensor rsqrt(const Tensor& x);
///@{
/// log(1 + x) and e^x - 1, accurate near 0.
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
/// Sine and cosine of an angle in radians.
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
///@}
/// log(1 + e^x), without overflow.
Tensor softplus(const Tensor& x);
/// x where x > 0, else slope * x; the derivative at 0 is slope. Maas, Hannun, Ng 2013.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// x where x > 0, else alpha * (e^x - 1). Clevert, Unterthiner, Hochreiter 2015, arXiv 1511.07289.
Tensor elu(const Tensor& x, double alpha = 1);
/// |x|, with gradient 0 at 0.
Tensor abs(const Tensor& x);
/// The sign of x: -1, 0 or 1; NaN stays NaN. The gradient is 0 and is not recorded.
Tensor sign(const Tensor& x);
/// The error function, 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.
Tensor erf(const Tensor& x);

}  // namespace gradus
