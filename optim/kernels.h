#pragma once
// The update rules, on raw memory: each element is read and written once.

#include <cmath>

#include "gradus/core/parallel.h"

namespace gradus::optim::kernel {

struct SgdStep {
  double lr, momentum, weight_decay, grad_scale;
  bool nesterov;
};

/// g = grad_scale grad + weight_decay p;  u = momentum u + g;  p -= lr u, or with Nesterov's
/// momentum p -= lr (g + momentum u). Without momentum, u is not touched and may be null.
template <class T>
void sgd(int64_t n, const SgdStep& step, T* p, const T* grad, T* u) {
  const T lr = static_cast<T>(step.lr), momentum = static_cast<T>(step.momentum);
  const T decay = static_cast<T>(step.weight_decay), scale = static_cast<T>(step.grad_scale);
  if (momentum == 0) {
    simd_for(n, [=](int64_t i) { p[i] -= lr * (scale * grad[i] + decay * p[i]); });
  } else if (step.nesterov) {
    simd_for(n, [=](int64_t i) {
      const T g = scale * grad[i] + decay * p[i];
      u[i] = momentum * u[i] + g;
      p[i] -= lr * (g + momentum * u[i]);
    });
  } else {
    simd_for(n, [=](int64_t i) {
      u[i] = momentum * u[i] + (scale * grad[i] + decay * p[i]);
      p[i] -= lr * u[i];
    });
  }
}

struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay, grad_scale;
  bool decoupled;  // AdamW: the decay acts on p, not through the moments
  int64_t t;       // counts from 1
};

/// g = grad_scale grad (+ weight_decay p unless decoupled);
/// m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
/// p = (1 - lr weight_decay if decoupled) p - lr m / (1-beta1^t) / (sqrt(v / (1-beta2^t)) + eps).
template <class T>
void adam(int64_t n, const AdamStep& step, T* p, const T* grad, T* m, T* v) {
  const double t = static_cast<double>(step.t);
  const T beta1 = static_cast<T>(step.beta1), rest1 = static_cast<T>(1 - step.beta1);
  const T beta2 = static_cast<T>(step.beta2), rest2 = static_cast<T>(1 - step.beta2);
  const T rate = static_cast<T>(step.lr / (1 - std::pow(step.beta1, t)));
  const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, t)));
  const T eps = static_cast<T>(step.eps), scale = static_cast<T>(step.grad_scale);
  const T keep = static_cast<T>(step.decoupled ? 1 - step.lr * step.weight_decay : 1);
  const T decay = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
  simd_for(n, [=](int64_t i) {
    const T g = scale * grad[i] + decay * p[i];
    m[i] = beta1 * m[i] + rest1 * g;
    v[i] = beta2 * v[i] + rest2 * g * g;
    p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i]) * root + eps);
  });
}

}  // namespace gradus::optim::kernel
