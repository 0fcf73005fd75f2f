#pragma once
// Reductions over axes. Axes may be negative; an empty list, the default, means all axes. Long sums
// are computed in blocks, in an order that does not depend on the number of threads.

#include "gradus/core/ops/ordering.h"  // max, min, argmax and argmin are reductions too

namespace gradus {

/// Returns the sum along `dims`, by default of all elements. For bool, returns the number of true
/// elements, as int64. Throws Error if an int64 sum overflows or has more than 2^31 terms.
Tensor sum(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// Returns the mean along `dims`, by default of all elements. For bool, returns the fraction of
/// true elements, as float32. The mean of no elements is NaN. Throws Error for int64.
Tensor mean(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
/// Returns the variance of the n elements along `dims`, by default of all elements: their squared
/// distances from the mean, summed and divided by max(n - correction, 0). If this divisor is 0, the
/// result is NaN or infinite. The default correction of 1 makes the variance unbiased, as in
/// torch.var.
Tensor var(const Tensor& x, const Axes& dims = {}, int64_t correction = 1, KeepDim keep = false);
template <std::same_as<bool> B>  // deleted: true could be meant as `keep` or as correction 1
Tensor var(const Tensor& x, const Axes& dims, B, KeepDim keep = false) = delete;
/// Returns the standard deviation along `dims`, by default of all elements: the square root of
/// var(x, dims, correction). Where the result is 0, the gradient is 0. PyTorch's name, std, would
/// clash with namespace std.
Tensor std_dev(const Tensor& x, const Axes& dims = {}, int64_t correction = 1,
               KeepDim keep = false);
template <std::same_as<bool> B>
Tensor std_dev(const Tensor& x, const Axes& dims, B, KeepDim keep = false) = delete;
/// Returns the Euclidean norm sqrt(sum x^2) along `dims`, by default of all elements. Where the
/// norm is 0, the gradient is 0.
Tensor norm(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
///@{
/// Returns the sum, mean or norm of all elements. If `keep` is keepdim, the result keeps all axes,
/// with size 1; otherwise it has rank 0.
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
/// Returns whether any (all) elements of a bool tensor along `dims`, by default of the whole
/// tensor, are true. If there are no elements, any is false and all is true.
Tensor any(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
Tensor all(const Tensor& x, const Axes& dims = {}, KeepDim keep = false);
inline Tensor any(const Tensor& x, KeepDim keep) { return any(x, {}, keep); }
inline Tensor all(const Tensor& x, KeepDim keep) { return all(x, {}, keep); }
///@}
/// Returns log(sum(exp x)) along dim, without overflow; -inf if all elements are -inf.
Tensor logsumexp(const Tensor& x, Axis dim, KeepDim keep = false);

}  // namespace gradus
