#include "gradus/optim/optimizers.h"

#include "gradus/core/internal.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::optim {

// The update rules read and write each element once. They convert scalars to T so that their loops
// vectorise.

// ---- SGD ----

namespace {
template <class T>
void sgd(const ElementwiseOptimizer::Chunk<T>& c, const SGDOptions& o) {
  T *p = c.param, *u = c.state[0];
  const T *grad = c.grad, lr = static_cast<T>(c.lr), momentum = static_cast<T>(o.momentum);
  const T decay = static_cast<T>(c.weight_decay), scale = static_cast<T>(c.grad_scale);
  if (momentum == 0) {
    simd_for(c.n, [=](int64_t i) { p[i] -= lr * (scale * grad[i] + decay * p[i]); });
  } else if (o.nesterov) {
    simd_for(c.n, [=](int64_t i) {
      const T g = scale * grad[i] + decay * p[i];
      u[i] = momentum * u[i] + g;
      p[i] -= lr * (g + momentum * u[i]);
    });
  } else {
    simd_for(c.n, [=](int64_t i) {
      u[i] = momentum * u[i] + (scale * grad[i] + decay * p[i]);
      p[i] -= lr * u[i];
    });
  }
}
}  // namespace

SGD::SGD(ParameterGroups params, const SGDOptions& options)
    : ElementwiseOptimizer(
          "SGD", std::move(params), options.lr, options.weight_decay,
          options.momentum == 0 ? std::vector<State>{} : std::vector<State>{"momentum"},
          [options](const auto& c) { sgd(c, options); }) {
  check(options.momentum >= 0 && options.momentum < 1, "SGD: expected 0 <= momentum < 1, got ",
        options.momentum);
  check(!options.nesterov || options.momentum > 0, "SGD: nesterov needs momentum > 0");
}

// ---- Adam and AdamW ----

namespace {
/// If `decoupled` (AdamW), weight decay shrinks p directly instead of being added to the gradient.
template <bool decoupled, class T, class Options>
void adam(const ElementwiseOptimizer::Chunk<T>& c, const Options& o) {
  T *p = c.param, *m = c.state[0], *v = c.state[1];
  const double t = static_cast<double>(c.step);
  const T beta1 = static_cast<T>(o.beta1), rest1 = static_cast<T>(1 - o.beta1);
  const T beta2 = static_cast<T>(o.beta2), rest2 = static_cast<T>(1 - o.beta2);
  const T rate = static_cast<T>(c.lr / (1 - std::pow(o.beta1, t)));
  const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(o.beta2, t)));
  const T *grad = c.grad, eps = c.eps_of(o.eps), scale = static_cast<T>(c.grad_scale);
  const T keep = static_cast<T>(decoupled ? 1 - c.lr * c.weight_decay : 1);
  const T decay = static_cast<T>(decoupled ? 0 : c.weight_decay);
  simd_for(c.n, [=](int64_t i) {
    const T g = scale * grad[i] + decay * p[i];
    m[i] = beta1 * m[i] + rest1 * g;
    v[i] = beta2 * v[i] + rest2 * g * g;
    p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i]) * root + eps);
  });
}

template <class Options>
void check_adam(const char* name, const Options& options) {
  for (double beta : {options.beta1, options.beta2})
    check(beta >= 0 && beta < 1, name, ": expected betas in [0, 1), got ", beta);
  internal::check_eps(name, options.eps);
}
}  // namespace

Adam::Adam(ParameterGroups params, const AdamOptions& options)
    : ElementwiseOptimizer("Adam", std::move(params), options.lr, options.weight_decay,
                           {"exp_avg", "exp_avg_sq"},
                           [options](const auto& c) { adam<false>(c, options); }) {
  check_adam("Adam", options);
}

AdamW::AdamW(ParameterGroups params, const AdamWOptions& options)
    : ElementwiseOptimizer("AdamW", std::move(params), options.lr, options.weight_decay,
                           {"exp_avg", "exp_avg_sq"},
                           [options](const auto& c) { adam<true>(c, options); }) {
  check_adam("AdamW", options);
}

}  // namespace gradus::optim
