#pragma once
// Derivatives of functions of one tensor, computed with grad(): Jacobians, Hessians, and products
// of a Hessian and a vector. As in torch.autograd.functional, the shape of a Jacobian is the
// output's shape followed by the input's. Derivatives are 0 where the output does not depend on the
// input.
//
// Each function calls f once, with a tensor that has x's elements and requires grad, whether or not
// x requires grad. No .grad is changed. Gradients are recorded while f runs, even under NoGrad. All
// functions throw Error if x or f(x) is not float32 or float64, or if the result would have more
// than max_rank axes.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct DerivativeOptions {
  /// If true, records the computation of the derivative. The derivative can then be differentiated
  /// with respect to x, if x requires grad, and with respect to the tensors that f captures.
  bool create_graph = false;
};

/// Returns all derivatives dy_i / dx_j for y = f(x). The shape is y.shape() followed by x.shape().
/// Runs one backward pass per element of y.
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                const DerivativeOptions& options = {});
/// Returns the second derivatives of f at x, which are the Jacobian of f's gradient. The shape is
/// x.shape() followed by x.shape(). Throws Error unless f returns one element.
Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
               const DerivativeOptions& options = {});
/// Returns H v, of x's shape, where H is the Hessian of f and v has x's shape and dtype. Runs two
/// backward passes and does not compute H itself: Pearlmutter 1994, "Fast Exact Multiplication by
/// the Hessian". Since H is symmetric, the result also equals v^T H, which torch calls vhp. Throws
/// Error if f does not return one element, or if v differs from x in shape or dtype.
Tensor hvp(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v,
           const DerivativeOptions& options = {});

}  // namespace gradus
