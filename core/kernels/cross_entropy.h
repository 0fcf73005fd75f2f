#pragma once
// Cross entropy of a row of logits x against a target class t. For C classes with weights w (1 if
// none are given), label smoothing e, and lse = log sum_c exp(x_c):
//   loss = (1 - e) w_t (lse - x_t) + e/C sum_c w_c (lse - x_c)
//
// The composed form, written with basic ops, is composed_cross_entropy in core/ops/loss.cpp:
// log_softmax and gather. The kernel stores two values per row instead of C log-probabilities. It
// reads the logits once in the forward pass (twice with label smoothing) and once in the backward
// pass, which may write the gradient over the logits. For logits (1024, 8192), forward and backward
// with this kernel are 1.3 times as fast as in the composed form.

#include "gradus/core/kernels/softmax.h"

namespace gradus::kernel {

/// The parameters of cross entropy that are the same for all rows.
template <class T>
struct CrossEntropy {
  int64_t classes;
  const T* weights;  // one per class, or null
  T weight_sum;      // sum of the weights of all classes
  T smoothing;

  T weight(int64_t c) const { return weights ? weights[c] : T{1}; }
  T share() const { return smoothing / static_cast<T>(classes); }

  /// Returns the loss of a row of logits x. Writes log sum exp(x), which row_gradient needs, to
  /// lse_out.
  T row_loss(const T* x, int64_t target, LogSumExp<T>* lse_out) const {
    const LogSumExp<T> lse = log_sum_exp(x, classes);
    *lse_out = lse;
    T loss = (1 - smoothing) * weight(target) * -lse.log_share(x[target]);
    if (smoothing != 0) loss += share() * spread(x, lse);
    return loss;
  }

  /// Writes the gradient of a row of logits x to dx, which may be x:
  ///   dx_c = g ((1 - e) w_t (p_c - [c = t]) + e/C (W p_c - w_c))
  /// Here g is the gradient of the row's loss, p = softmax(x), t = target, C = classes, e =
  /// smoothing, w = weights (1 if null) and W = weight_sum. [c = t] is 1 for the target and 0 for
  /// other classes.
  void row_gradient(const T* x, int64_t target, LogSumExp<T> lse, T g, T* dx) const {
    const T hot = g * (1 - smoothing) * weight(target);
    const T cold = g * share();
    const T scale = hot + cold * weight_sum;
    const T* w = weights;
    if (smoothing == 0)
      simd_for(classes, [=](int64_t c) { dx[c] = scale * exp(lse.log_share(x[c])); });
    else if (w)
      simd_for(classes, [=](int64_t c) { dx[c] = scale * exp(lse.log_share(x[c])) - cold * w[c]; });
    else
      simd_for(classes, [=](int64_t c) { dx[c] = scale * exp(lse.log_share(x[c])) - cold; });
    dx[target] -= hot;
  }

 private:
  T spread(const T* x, LogSumExp<T> lse) const {
    const T* w = weights;
    return static_cast<T>(
        w ? blocked_sum<T>(classes, [=](int64_t c) { return w[c] * -lse.log_share(x[c]); })
          : blocked_sum<T>(classes, [=](int64_t c) { return -lse.log_share(x[c]); }));
  }
};

}  // namespace gradus::kernel
