#include "gradus/core/debug/gradcheck.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

namespace {

/// A leaf with x's elements and strides in its own storage, so that `f` runs the same kernels as
/// for x.
Tensor fresh_leaf(const Tensor& x) {
  const NoGrad no_grad;
  int64_t extent = 1;
  for (int i = 0; i < x.rank(); ++i)
    extent += std::max<int64_t>(x.shape()[i] - 1, 0) * x.strides()[i];
  const Tensor copy = view_of(empty({extent}, x.dtype()), x.shape(), x.strides());
  copy.copy_(x.detach());
  return copy.requires_grad_();
}

std::vector<Tensor> fresh_leaves(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.requires_grad() ? fresh_leaf(x) : x);
  return leaves;
}

/// Throws Error if elements of x share memory. They do not if each axis, from the smallest stride
/// up, steps over the whole span of the previous ones.
void check_no_overlap(const char* op, size_t input, const Tensor& x) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] > 1) axes.emplace_back(x.strides()[i], x.shape()[i]);
  std::sort(axes.begin(), axes.end());
  int64_t span = 1;
  for (const auto& [stride, size] : axes) {
    check(stride >= span || x.numel() == 0, op, ": input ", input, " of shape ", x.shape(),
          " and strides ", x.strides(), " has elements that share memory; pass a clone");
    span += (size - 1) * stride;
  }
}

void check_inputs(const char* op, const std::vector<Tensor>& inputs) {
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    any = true;
    check(inputs[i].dtype() == float64, op, ": input ", i, " requires grad: expected float64, got ",
          inputs[i].dtype());
    check_no_overlap(op, i, inputs[i]);
  }
  check(any, op, ": no input requires grad");
}

/// The floating outputs of f. Throws Error unless they have the shapes of `first`, if given: the
/// outputs of an earlier call. The message begins with `op`.
std::vector<Tensor> floating_outputs(const char* op, const TensorFunction& f,
                                     const std::vector<Tensor>& inputs,
                                     const std::vector<Tensor>* first = nullptr) {
  std::vector<Tensor> outputs = f(inputs);
  for (const Tensor& y : outputs) check(y.defined(), op, ": f returned an undefined tensor");
  std::erase_if(outputs, [](const Tensor& y) { return !is_floating(y.dtype()); });
  const auto shape = [](const Tensor& y) { return y.shape(); };
  check(!first || std::ranges::equal(outputs, *first, {}, shape, shape), op,
        ": f returned outputs of other shapes than in its first call");
  return outputs;
}

/// d output[j] / d input[i] for one output and one input: row j, column i.
using Jacobian = std::vector<std::vector<double>>;

/// The Jacobians of `output` with respect to `inputs`, by one backward pass per element of
/// `output`.
std::vector<Jacobian> analytic_jacobians(const Tensor& output, const std::vector<Tensor>& inputs) {
  std::vector<Jacobian> jacobians(inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k)
    jacobians[k].assign(static_cast<size_t>(output.numel()),
                        std::vector<double>(static_cast<size_t>(inputs[k].numel())));
  if (!output.requires_grad()) return jacobians;
  for (int64_t j = 0; j < output.numel(); ++j) {
    const Tensor dy = zeros_like(output);
    dy.reshape({-1})[j].fill_(1);
    const std::vector<Tensor> grads =
        grad({output}, inputs, {.grad_outputs = {dy}, .retain_graph = true, .allow_unused = true});
    for (size_t k = 0; k < inputs.size(); ++k)
      if (grads[k].defined()) jacobians[k][static_cast<size_t>(j)] = grads[k].to_vector<double>();
  }
  return jacobians;
}

/// Fresh leaves with `step` added to element i of input k.
std::vector<Tensor> moved(const std::vector<Tensor>& inputs, size_t k, int64_t i, double step) {
  std::vector<Tensor> leaves = fresh_leaves(inputs);
  Tensor element = leaves[k].detach();
  for (const int64_t at : index_of(element.shape(), i)) element = element[at];
  *element.data<double>() += step;
  return leaves;
}

/// Compares as gradcheck does. `name` starts the message, in which the inputs from index `own` on
/// are called output gradients.
GradcheckResult compare(const char* name, const TensorFunction& f,
                        const std::vector<Tensor>& inputs, size_t own,
                        const GradcheckOptions& options) {
  const std::vector<Tensor> leaves = fresh_leaves(inputs);
  const std::vector<Tensor> outputs = floating_outputs(name, f, leaves);
  std::vector<Tensor> differentiable;
  std::vector<size_t> differentiable_at;
  for (size_t k = 0; k < leaves.size(); ++k)
    if (leaves[k].requires_grad())
      differentiable.push_back(leaves[k]), differentiable_at.push_back(k);
  std::vector<std::vector<Jacobian>> analytic;
  for (const Tensor& y : outputs) analytic.push_back(analytic_jacobians(y, differentiable));

  for (size_t w = 0; w < differentiable.size(); ++w)
    for (int64_t i = 0; i < differentiable[w].numel(); ++i) {
      const size_t k = differentiable_at[w];
      const auto above = floating_outputs(name, f, moved(inputs, k, i, options.eps), &outputs);
      const auto below = floating_outputs(name, f, moved(inputs, k, i, -options.eps), &outputs);
      for (size_t o = 0; o < outputs.size(); ++o) {
        const auto high = above[o].to_vector<double>(), low = below[o].to_vector<double>();
        for (size_t j = 0; j < high.size(); ++j) {
          const double numeric = (high[j] - low[j]) / (2 * options.eps);
          const double got = analytic[o][w][j][static_cast<size_t>(i)];
          const double tolerance = options.atol + options.rtol * std::abs(numeric);
          if (std::isfinite(numeric) && std::abs(got - numeric) <= tolerance) continue;
          core::Text message;
          message.precision(10);
          message << name << ": d output " << o << " at "
                  << index_of(outputs[o].shape(), static_cast<int64_t>(j)) << " / d "
                  << (k < own ? "input " : "output gradient ") << (k < own ? k : k - own) << " at "
                  << index_of(differentiable[w].shape(), i) << ": analytic " << got << ", numeric "
                  << numeric;
          return {false, message.str()};
        }
      }
    }
  return {};
}

/// Values in [-1, 1) that depend only on `stream`; changes no generator's state.
Tensor fixed_random(const Shape& shape, uint64_t stream) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto words = philox({.seed = stream, .counter = 0}, i);
    values[i] = 2 * uniform_double(words[0], words[1]) - 1;
  }
  return from_data(values, shape);
}

}  // namespace

GradcheckResult gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  check_inputs("gradcheck", inputs);
  return compare("gradcheck", f, inputs, inputs.size(), options);
}

GradcheckResult gradgradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options) {
  check_inputs("gradgradcheck", inputs);
  std::vector<Tensor> all = inputs;
  std::vector<size_t> checked;  // indices of the floating outputs that require grad
  const std::vector<Tensor> probe = floating_outputs("gradgradcheck", f, fresh_leaves(inputs));
  for (size_t o = 0; o < probe.size(); ++o)
    if (probe[o].requires_grad()) {
      check(probe[o].dtype() == float64, "gradgradcheck: output ", o,
            " requires grad: expected float64, got ", probe[o].dtype());
      checked.push_back(o);
      all.push_back(fixed_random(probe[o].shape(), o).requires_grad_());
    }
  check(!checked.empty(), "gradgradcheck: no output requires grad");

  const auto own = static_cast<std::ptrdiff_t>(inputs.size());
  const TensorFunction gradients = [&](const std::vector<Tensor>& given) {
    const std::vector<Tensor> x(given.begin(), given.begin() + own);
    const std::vector<Tensor> results = floating_outputs("gradgradcheck", f, x, &probe);
    std::vector<Tensor> outputs, differentiable;
    for (size_t o : checked) outputs.push_back(results[o]);
    for (const Tensor& t : x)
      if (t.requires_grad()) differentiable.push_back(t);
    std::vector<Tensor> grads = grad(outputs, differentiable,
                                     {.grad_outputs = {given.begin() + own, given.end()},
                                      .create_graph = true,
                                      .allow_unused = true});
    for (size_t k = 0; k < grads.size(); ++k)
      if (!grads[k].defined()) grads[k] = zeros_like(differentiable[k]);
    return grads;
  };
  return compare("gradgradcheck", gradients, all, inputs.size(), options);
}

}  // namespace gradus
