#include "gradus/core/tensor/derivatives.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

namespace {

using Function = std::function<Tensor(const Tensor&)>;

/// Returns the argument for f: a tensor with x's elements that requires grad. If create_graph is
/// true and x requires grad, gradients flow through this tensor to x.
Tensor argument(const char* op, const Tensor& x, bool create_graph) {
  check_floating(op, x);
  return create_graph && x.requires_grad() ? x.view(x.shape()) : x.detach().requires_grad_();
}

Tensor checked(const char* op, Tensor y) {
  check(y.defined(), op, ": f returned an undefined tensor");
  check_floating(op, y);
  return y;
}

/// The gradient of sum(y dy) with respect to x; zeros if y does not depend on x.
Tensor product(const Tensor& y, const Tensor& dy, const Tensor& x, bool create_graph) {
  if (!y.requires_grad()) return zeros_like(x);
  const Tensor dx = grad({y}, {x},
                         {.grad_outputs = {dy},
                          .create_graph = create_graph,
                          .retain_graph = true,  // f may capture tensors with a graph of their own
                          .allow_unused = true})[0];
  return dx.defined() ? dx : zeros_like(x);
}

Tensor jacobian_of(const char* op, const Function& f, const Tensor& x, bool create_graph) {
  const GradMode recording(true);
  const Tensor at = argument(op, x, create_graph), y = checked(op, f(at));
  check(y.rank() + x.rank() <= max_rank, op, ": y ", y.shape(), " and x ", x.shape(),
        " have more than ", max_rank, " axes together");
  Shape shape = y.shape();
  for (const int64_t n : x.shape()) shape.push_back(n);
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const Tensor dy = zeros({y.numel()}, y.dtype());
    dy[i].fill_(1);
    rows.push_back(product(y, dy.reshape(y.shape()), at, create_graph).reshape({x.numel()}));
  }
  return rows.empty() ? zeros(shape, x.dtype()) : stack(rows).reshape(shape);
}

/// The gradient of f at x, which can be differentiated.
Tensor gradient(const char* op, const Function& f, const Tensor& x) {
  const Tensor y = checked(op, f(x));
  check(y.numel() == 1, op, ": expected f to return one element, got shape ", y.shape());
  return product(y, ones_like(y), x, true);
}

}  // namespace

Tensor jacobian(const Function& f, const Tensor& x, const DerivativeOptions& options) {
  return jacobian_of("jacobian", f, x, options.create_graph);
}

Tensor hessian(const Function& f, const Tensor& x, const DerivativeOptions& options) {
  return jacobian_of(
      "hessian", [&](const Tensor& at) { return gradient("hessian", f, at); }, x,
      options.create_graph);
}

Tensor hvp(const Function& f, const Tensor& x, const Tensor& v, const DerivativeOptions& options) {
  check_tensor("hvp", "v", v, x.dtype(), x.shape());
  const GradMode recording(true);
  const Tensor at = argument("hvp", x, options.create_graph);
  return product(gradient("hvp", f, at), v, at, options.create_graph);
}

}  // namespace gradus
