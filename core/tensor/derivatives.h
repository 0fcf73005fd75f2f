#pragma once
// Derivatives of functions of one tensor, computed with grad(). As in torch.autograd.functional, a
// derivative has the shape of the output followed by that of the input, and is 0 where the output
// does not depend on the input.
//
// Each function calls f once, with a tensor that has x's elements and requires grad; x itself need
// not, and no .grad changes. Gradients are recorded while f runs, also under NoGrad. All throw
// Error unless x and f(x) are float32 or float64.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

struct DerivativeOptions {
  /// Record the computation of the derivative, so that it can be differentiated with respect to x,
  /// if x requires grad, and to what f captures.
  bool create_graph = false;
};

/// dy_i / dx_j for y = f(x), of shape y.shape() + x.shape(); takes one backward pass per element of
/// y.
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
                const DerivativeOptions& options = {});
/// The second derivatives of an f that returns one element, of shape x.shape() + x.shape(): the
/// Jacobian of f's gradient. Throws Error if f returns more.
Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x,
               const DerivativeOptions& options = {});
/// The Hessian of f times v (x's shape and dtype), in x's shape, by two backward passes and without
/// the Hessian: Pearlmutter 1994, "Fast Exact Multiplication by the Hessian". The Hessian is
/// symmetric, so this is also v times the Hessian, torch's vhp.
Tensor hvp(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v,
           const DerivativeOptions& options = {});

}  // namespace gradus
