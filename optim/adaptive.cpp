#include "gradus/optim/adaptive.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::optim {

// ---- RMSprop ----

namespace {
/// States: square_avg, then momentum_buffer and grad_avg if used.
template <bool centered, bool with_momentum, class T>
void rmsprop(const ElementwiseOptimizer::Chunk<T>& c, const RMSpropOptions& o) {
  T *p = c.param, *v = c.state[0], *u = c.state[1], *m = c.state[with_momentum ? 2 : 1];
  const T alpha = static_cast<T>(o.alpha), rest = static_cast<T>(1 - o.alpha);
  const T eps = c.eps_of(o.eps), momentum = static_cast<T>(o.momentum);
  const T *grad = c.grad, lr = static_cast<T>(c.lr), scale = static_cast<T>(c.grad_scale);
  const T decay = static_cast<T>(c.weight_decay);
  simd_for(c.n, [=](int64_t i) {
    const T g = scale * grad[i] + decay * p[i];
    T spread = v[i] = alpha * v[i] + rest * g * g;
    if constexpr (centered) {
      m[i] = alpha * m[i] + rest * g;
      spread -= m[i] * m[i];
      spread = spread < 0 ? T{0} : spread;
    }
    T move = g / (std::sqrt(spread) + eps);
    if constexpr (with_momentum) move = u[i] = momentum * u[i] + move;
    p[i] -= lr * move;
  });
}

std::vector<State> rmsprop_state(const RMSpropOptions& options) {
  std::vector<State> names{"square_avg"};
  if (options.momentum > 0) names.push_back("momentum_buffer");
  if (options.centered) names.push_back("grad_avg");
  return names;
}
}  // namespace

RMSprop::RMSprop(ParameterGroups params, const RMSpropOptions& options)
    : ElementwiseOptimizer("RMSprop", std::move(params), options.lr, options.weight_decay,
                           rmsprop_state(options), [o = options](const auto& c) {
                             if (o.momentum > 0)
                               o.centered ? rmsprop<true, true>(c, o) : rmsprop<false, true>(c, o);
                             else
                               o.centered ? rmsprop<true, false>(c, o)
                                          : rmsprop<false, false>(c, o);
                           }) {
  check(options.alpha >= 0 && options.alpha < 1, "RMSprop: expected alpha in [0, 1), got ",
        options.alpha);
  internal::check_eps("RMSprop", options.eps);
  check(options.momentum >= 0 && options.momentum < 1, "RMSprop: expected 0 <= momentum < 1, got ",
        options.momentum);
}

// ---- Adagrad ----

namespace {
template <class T>
void adagrad(const ElementwiseOptimizer::Chunk<T>& c, const AdagradOptions& o) {
  T *p = c.param, *sum = c.state[0];
  const T* grad = c.grad;
  const T scale = static_cast<T>(c.grad_scale), decay = static_cast<T>(c.weight_decay);
  const T eps = c.eps_of(o.eps);
  const T lr = static_cast<T>(c.lr / (1 + static_cast<double>(c.step - 1) * o.lr_decay));
  simd_for(c.n, [=](int64_t i) {
    const T g = scale * grad[i] + decay * p[i];
    sum[i] += g * g;
    p[i] -= lr * g / (std::sqrt(sum[i]) + eps);
  });
}
}  // namespace

Adagrad::Adagrad(ParameterGroups params, const AdagradOptions& options)
    : ElementwiseOptimizer(
          "Adagrad", std::move(params), options.lr, options.weight_decay,
          {State("sum", [start = options.initial_sum](
                            const Tensor& p) { return full(p.shape(), start, p.dtype()); })},
          [options](const auto& c) { adagrad(c, options); }) {
  for (double x : {options.lr_decay, options.initial_sum, options.eps})
    check(x >= 0 && std::isfinite(x),
          "Adagrad: expected a finite lr_decay, initial_sum and eps >= 0, got ", x);
}

// ---- Lion ----

namespace {
template <class T>
void lion(const ElementwiseOptimizer::Chunk<T>& c, const LionOptions& o) {
  T *p = c.param, *m = c.state[0];
  const T *grad = c.grad, scale = static_cast<T>(c.grad_scale), lr = static_cast<T>(c.lr);
  const T beta1 = static_cast<T>(o.beta1), rest1 = static_cast<T>(1 - o.beta1);
  const T beta2 = static_cast<T>(o.beta2), rest2 = static_cast<T>(1 - o.beta2);
  const T keep = static_cast<T>(1 - c.lr * c.weight_decay);
  simd_for(c.n, [=](int64_t i) {
    const T g = scale * grad[i], move = beta1 * m[i] + rest1 * g;
    p[i] = keep * p[i] - lr * static_cast<T>((move > 0) - (move < 0));
    m[i] = beta2 * m[i] + rest2 * g;
  });
}
}  // namespace

Lion::Lion(ParameterGroups params, const LionOptions& options)
    : ElementwiseOptimizer("Lion", std::move(params), options.lr, options.weight_decay, {"exp_avg"},
                           [options](const auto& c) { lion(c, options); }) {
  for (double beta : {options.beta1, options.beta2})
    check(beta >= 0 && beta < 1, "Lion: expected betas in [0, 1), got ", beta);
}

}  // namespace gradus::optim
