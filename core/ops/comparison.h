#pragma once
// Elementwise comparison, logic, and selection by a mask. Tensors broadcast as in NumPy and, except
// for masks and conditions, must have the same dtype.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

///@{
/// Returns the result of an elementwise comparison or logical operation: a bool tensor without a
/// gradient. The operands of logical operations must be bool tensors. A number b is converted to
/// a's dtype. Throws Error if a is int64 and b is not an integer in int64's range.
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
/// Returns eq, ne, lt, le, gt or ge of two tensors, or of a tensor and a number. The result is a
/// tensor, so `if (a == b)` does not compile: write `if (all(a == b).item<bool>())`.
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
/// Returns logical_not(x), logical_and(a, b) or logical_or(a, b). Put comparisons in parentheses,
/// as in (x > 0) & (x < 1), because GCC warns otherwise.
inline Tensor operator!(const Tensor& x) { return logical_not(x); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
///@}
/// Returns a bool tensor that is true where x is NaN.
Tensor isnan(const Tensor& x);

struct AllcloseOptions {
  double rtol = 1e-5, atol = 1e-8;  ///< tolerances: relative to |b|, and absolute
  bool equal_nan = false;           ///< whether NaN counts as close to NaN
};
/// Returns whether |a - b| <= atol + rtol |b| for all elements, computed in double. An infinity is
/// close only to itself. Returns true if there are no elements. Throws Error if a tolerance is
/// negative.
bool allclose(const Tensor& a, const Tensor& b, const AllcloseOptions& options = {});

/// Returns the elements of a where the bool tensor `condition` is true, and those of b elsewhere.
/// The three tensors broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// Returns a copy of x with `value` at each element for which the bool tensor `mask` is true. The
/// mask broadcasts to x's shape. The gradient is 0 where the mask is true. Throws Error if x is
/// int64 and `value` is not an integer in int64's range.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

}  // namespace gradus
