#pragma once
// Reductions over axes. Axes may be negative; an empty list, the default, means all axes. Long sums
// are computed in blocks, in an order that does not depend on the number of threads.

#include "gradus/core/ops/ordering.h"  // max, min, argmax and argmin are reductions too

namespace gradus {

/// Returns the sum; for bool the number of true elements, as int64. Throws Error if an int64 sum
/// overflows or has more than 2^31 terms.
Tensor sum(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// Returns the mean; for bool the fraction of true elements, as float32. The mean of no elements is
/// NaN. Throws Error for int64.
Tensor mean(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// Returns the variance of n elements, with divisor max(n - correction, 0). The default correction
/// of 1 makes it unbiased, as in torch.var.
Tensor var(const Tensor& x, const Axes& dims = {}, int64_t correction = 1, KeepDim keep = false);
template <std::same_as<bool> B>  // in var(x, dims, true), true could be keepdim or correction 1
Tensor var(const Tensor& x, const Axes& dims, B, KeepDim keep = false) = delete;
/// Returns the standard deviation, sqrt(var). PyTorch's name, std, would clash with namespace std.
/// Where the result is 0, the gradient is 0.
Tensor std_dev(const Tensor& x, const Axes& dims = {}, int64_t correction = 1,
               KeepDim keep = false);
template <std::same_as<bool> B>
Tensor std_dev(const Tensor& x, const Axes& dims, B, KeepDim keep = false) = delete;
/// Returns the Euclidean norm, sqrt(sum x^2). The gradient at 0 is 0.
Tensor norm(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
///@{
/// Reduces all axes. If `keep` is keepdim, keeps them with size 1.
inline Tensor sum(const Tensor& x, KeepDim keep) { return sum(x, {}, keep); }
inline Tensor mean(const Tensor& x, KeepDim keep) { return mean(x, {}, keep); }
inline Tensor norm(const Tensor& x, KeepDim keep) { return norm(x, {}, keep); }
///@}
///@{
/// Returns the product of all elements, or of the elements along dim; 1 if there are none. For bool
/// the result is int64. Gradients are correct even where elements are 0. Throws Error if an int64
/// product overflows.
Tensor prod(const Tensor& x);
Tensor prod(const Tensor& x, Axis dim, KeepDim keep = false);
///@}
///@{
/// Returns whether any (all) elements of a bool tensor are true. If there are no elements, any is
/// false and all is true.
Tensor any(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
Tensor all(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
inline Tensor any(const Tensor& x, KeepDim keep) { return any(x, {}, keep); }
inline Tensor all(const Tensor& x, KeepDim keep) { return all(x, {}, keep); }
///@}
/// Returns log(sum(exp x)) along dim, without overflow; -inf if all elements are -inf.
Tensor logsumexp(const Tensor& x, Axis dim, KeepDim keep = false);

}  // namespace gradus
