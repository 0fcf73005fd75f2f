#pragma once
// Reductions. Axes may be negative; none given, or {}, means all. Long sums are blocked, in an
// order that does not depend on the number of threads.

#include "gradus/core/ops/ordering.h"  // max, min, argmax, argmin: reductions, too

namespace gradus {

/// Of bool: how many are true, int64. Throws Error where an int64 sum overflows.
Tensor sum(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// Of bool: which fraction is true, float32.
Tensor mean(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// The variance with divisor n - correction (1: unbiased, as torch.var).
Tensor var(const Tensor& x, const Axes& dims = {}, int64_t correction = 1, KeepDim keep = false);
template <std::same_as<bool> B>  // var(x, dims, true): keepdim or a correction of 1?
Tensor var(const Tensor& x, const Axes& dims, B, KeepDim keep = false) = delete;
/// The square root of var: torch.std, a name that is the namespace's in C++. Its gradient at 0 is 0.
Tensor std_dev(const Tensor& x, const Axes& dims = {}, int64_t correction = 1,
               KeepDim keep = false);
template <std::same_as<bool> B>
Tensor std_dev(const Tensor& x, const Axes& dims, B, KeepDim keep = false) = delete;
/// The Euclidean norm sqrt(sum x^2); its gradient at 0 is 0.
Tensor norm(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
///@{
/// Over all axes, kept with size 1.
inline Tensor sum(const Tensor& x, KeepDim keep) { return sum(x, {}, keep); }
inline Tensor mean(const Tensor& x, KeepDim keep) { return mean(x, {}, keep); }
inline Tensor norm(const Tensor& x, KeepDim keep) { return norm(x, {}, keep); }
///@}
///@{
/// The product of all elements, or along dim; of none: 1. Of bool: int64. Its gradients are right
/// where elements are 0. Throws Error where an int64 product overflows.
Tensor prod(const Tensor& x);
Tensor prod(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// Whether any (all) elements of a bool tensor are true; of none: false (true).
Tensor any(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
Tensor all(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
inline Tensor any(const Tensor& x, KeepDim keep) { return any(x, {}, keep); }
inline Tensor all(const Tensor& x, KeepDim keep) { return all(x, {}, keep); }
///@}
/// y_i = x_0 + ... + x_i along dim, x's shape. Of bool: int64. Throws Error where an int64 sum
/// overflows.
Tensor cumsum(const Tensor& x, Axis dim);
/// log(sum(exp x)) along dim, without overflow; -inf where all are -inf.
Tensor logsumexp(const Tensor& x, Axis dim, KeepDim keep = false);

}  // namespace gradus
