#include "gradus/core/ops/loss.h"

#include "gradus/core/kernels/cross_entropy.h"
#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"

namespace gradus {

namespace {

Tensor reduce(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

/// Reduces, with the mean computed as sum / count.
Tensor reduce(const Tensor& losses, Reduction reduction, const Tensor& count) {
  return reduction == Reduction::mean ? sum(losses) / count : reduce(losses, reduction);
}

void check_matches(const char* op, const char* name, const Tensor& x, const Tensor& target) {
  check_floating(op, x);
  check_tensor(op, name, target, x.dtype(), x.shape());
}

// ---- cross entropy, composed ----

/// sum_c w_c log p_c, with w_c = 1 if there are no weights.
Tensor weighted_sum(const Tensor& log_p, const Tensor& weights) {
  return sum(weights.defined() ? log_p * weights : log_p, -1);
}

/// loss = -sum_c w_c t'_c log p_c with t' = (1 - e) t + e/C; the mean is taken over the examples.
Tensor cross_entropy_of_probabilities(const Tensor& logits, const Tensor& targets,
                                      const CrossEntropyOptions& options) {
  const double e = options.label_smoothing;
  const auto classes = static_cast<double>(logits.shape().back());
  const Tensor log_p = log_softmax(logits, -1);
  const Tensor t = e == 0 ? targets : targets * (1 - e) + e / classes;
  return reduce(-weighted_sum(log_p * t, options.class_weights), options.reduction);
}

/// The weight of each target's class.
Tensor weights_of(const Tensor& targets, const Tensor& weights) {
  return index_select(weights, 0, targets.reshape({-1})).reshape(targets.shape());
}

/// Returns -w_t x_t and w_t for each target t; w_t is 1 without weights, and 0 if t is ignored.
std::pair<Tensor, Tensor> at_targets(const Tensor& x, const Tensor& targets, int64_t ignore_index,
                                     const Tensor& weights) {
  const Tensor ignored = targets == static_cast<double>(ignore_index);
  const Tensor t = masked_fill(targets, ignored, 0);
  const Tensor w = weights.defined() ? weights_of(t, weights) : ones(t.shape(), x.dtype());
  const Tensor losses = -gather(x, -1, t.unsqueeze(-1)).squeeze(-1) * w;
  return {masked_fill(losses, ignored, 0), masked_fill(w, ignored, 0)};
}

/// loss = -(1 - e) w_t log p_t - e/C sum_c w_c log p_c, 0 if t is ignored; the mean divides by the
/// sum of w_t over the targets not ignored, and is NaN if that is 0.
Tensor composed_cross_entropy(const Tensor& logits, const Tensor& targets,
                              const CrossEntropyOptions& options) {
  const double e = options.label_smoothing;
  const auto classes = static_cast<double>(logits.shape().back());
  const Tensor log_p = log_softmax(logits, -1), &weights = options.class_weights;
  auto [losses, w] = at_targets(log_p, targets, options.ignore_index, weights);
  if (e != 0) {
    const Tensor smooth = losses * (1 - e) - weighted_sum(log_p, weights) * (e / classes);
    losses = masked_fill(smooth, targets == static_cast<double>(options.ignore_index), 0);
  }
  const Tensor total = sum(w);
  return reduce(losses, options.reduction, masked_fill(total, total == 0, NAN));
}

// ---- cross entropy, fused ----

/// The kernel's parameters for these options; `weights` must outlive them.
template <class T>
kernel::CrossEntropy<T> cross_entropy_kernel(int64_t classes, const Tensor& weights,
                                             double smoothing) {
  const T* w = weights.defined() ? weights.data<T>() : nullptr;
  double weight_sum = static_cast<double>(classes);
  if (w) {
    weight_sum = 0;
    for (int64_t c = 0; c < classes; ++c) weight_sum += static_cast<double>(w[c]);
  }
  return {classes, w, static_cast<T>(weight_sum), static_cast<T>(smoothing)};
}

struct CrossEntropyForward {
  Tensor loss;             // after the reduction
  Tensor lse;              // (rows, 2): the LogSumExp of each row not ignored
  double denominator = 1;  // by which the sum of the losses was divided
};

/// Contiguous inputs; class weights may be undefined.
struct CrossEntropyInputs {
  Tensor logits, targets, weights;
};

template <class T>
CrossEntropyForward cross_entropy_forward(const CrossEntropyInputs& in,
                                          const CrossEntropyOptions& options) {
  const auto& [logits, targets, weights] = in;
  const int64_t classes = logits.shape().back(), rows = targets.numel();
  const auto row = cross_entropy_kernel<T>(classes, weights, options.label_smoothing);
  Tensor losses = empty(targets.shape(), logits.dtype());
  const Tensor lse = empty({rows, 2}, logits.dtype());
  const T* x = logits.data<T>();
  const int64_t* t = targets.data<int64_t>();
  T* loss = losses.data<T>();
  auto* plse = reinterpret_cast<kernel::LogSumExp<T>*>(lse.data<T>());
  parallel_for_each(rows, kernel::rows_per_chunk<T>(classes), [&](int64_t i) {
    loss[i] = t[i] == options.ignore_index ? T{0} : row.row_loss(x + i * classes, t[i], plse + i);
  });
  if (options.reduction == Reduction::none) return {losses, lse};
  double total = 0, counted = 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (t[i] == options.ignore_index) continue;
    total += static_cast<double>(loss[i]);
    counted += static_cast<double>(row.weight(t[i]));
  }
  double denominator = 1;
  if (options.reduction == Reduction::mean) denominator = counted == 0 ? NAN : counted;
  return {scalar(total / denominator, logits.dtype()), lse, denominator};
}

/// Writes the logits' gradient to dx, which may be the logits. `dy` has one element per row or, if
/// the loss was reduced, a single one.
template <class T>
void cross_entropy_backward(const CrossEntropyInputs& in, const CrossEntropyForward& forward,
                            const CrossEntropyOptions& options, const Tensor& dy,
                            const Tensor& dx) {
  const auto& [x, targets, weights] = in;
  const int64_t classes = x.shape().back(), rows = targets.numel();
  const auto row = cross_entropy_kernel<T>(classes, weights, options.label_smoothing);
  const T *px = x.data<T>(), *pdy = dy.data<T>();
  const auto* plse = reinterpret_cast<const kernel::LogSumExp<T>*>(forward.lse.data<T>());
  const int64_t* t = targets.data<int64_t>();
  const auto denominator = static_cast<T>(forward.denominator);
  T* pdx = dx.data<T>();
  const bool each = options.reduction == Reduction::none;
  parallel_for_each(rows, kernel::rows_per_chunk<T>(classes), [&](int64_t i) {
    if (t[i] == options.ignore_index)
      std::fill_n(pdx + i * classes, classes, T{0});
    else
      row.row_gradient(px + i * classes, t[i], plse[i], pdy[each ? i : 0] / denominator,
                       pdx + i * classes);
  });
}

/// The backward rule of cross_entropy, with inputs logits (0), targets (1) and weights (2). The
/// gradient overwrites the logits if they have no other owner. `weights` are contiguous.
void cross_entropy_rule(Backward& back, const Tensor& weights, const CrossEntropyForward& forward,
                        const CrossEntropyOptions& options) {
  CrossEntropyInputs in{{}, back.input(1).contiguous(), weights};
  const Tensor dy = back.grad().contiguous();
  if (weights.defined()) back.input(2);  // throws if changed
  in.logits = take_input(back, 0);
  Tensor dx;
  if (in.logits.defined() && in.logits.is_contiguous()) {
    in.logits = in.logits.detach();
    dx = in.logits;
  } else {
    in.logits = (in.logits.defined() ? in.logits : back.input(0)).contiguous();
    dx = empty_like(in.logits);
  }
  dispatch_floating("cross_entropy", dx.dtype(), [&]<class T>(TypeTag<T>) {
    cross_entropy_backward<T>(in, forward, options, dy, dx);
  });
  in.logits = {};  // else give() would find another owner of dx
  back.give(0, std::move(dx));
}

/// The shape of the targets for logits (..., C).
Shape rows_of(const char* op, const char* what, const Tensor& x) {
  check_shape(op, what, x, {"...", "C"});
  check(x.shape().back() >= 1, op, ": expected at least one class, got ", what, " ", x.shape());
  check_floating(op, x);
  return x.shape().without(-1);
}

void check_class_weights(const char* op, const Tensor& x, const Tensor& weights) {
  if (!weights.defined()) return;
  check_tensor(op, "class weights", weights, x.dtype(), {x.shape().back()});
  check(!weights.requires_grad(), op, ": class weights cannot require grad; detach them");
}

void check_cross_entropy(const Tensor& logits, const Tensor& targets,
                         const CrossEntropyOptions& options) {
  const Shape rows = rows_of("cross_entropy", "logits", logits);
  const bool indices = targets.dtype() == int64;
  check(indices ? targets.shape() == rows
                : targets.dtype() == logits.dtype() && targets.shape() == logits.shape(),
        "cross_entropy: expected targets of int64 ", rows, " or ", logits.dtype(), " ",
        logits.shape(), ", got ", targets.dtype(), " ", targets.shape());
  const double e = options.label_smoothing;
  check(e >= 0 && e <= 1, "cross_entropy: expected label smoothing from 0 to 1, got ", e);
  check_class_weights("cross_entropy", logits, options.class_weights);
}

/// Throws Error unless weights, if defined, are factors of x's elements.
void check_weights(const char* op, const char* what, const Tensor& x, const Tensor& weights) {
  if (!weights.defined()) return;
  check(
      weights.dtype() == x.dtype() && broadcast_shapes(op, x.shape(), weights.shape()) == x.shape(),
      op, ": expected ", what, " of ", x.dtype(), " that broadcast to ", x.shape(), ", got ",
      weights.dtype(), " ", weights.shape());
  check(!weights.requires_grad(), op, ": ", what, " cannot require grad; detach them");
}

/// Throws Error, naming the first element of x that is not `valid`, unless all are.
void check_values(const char* op, const char* expected, const Tensor& x, const Tensor& valid) {
  if (valid.numel() == 0 || min(valid).item<bool>()) return;
  const int64_t at = argmin(valid).item<int64_t>();
  fail(op, ": expected ", expected, ", got ", x.reshape({-1})[at].item(), " at position ", at);
}

/// Throws Error unless each target is a class or ignore_index.
void check_targets(const char* op, const Tensor& targets, int64_t classes, int64_t ignore_index) {
  const int64_t* t = targets.data<int64_t>();
  for (int64_t i = 0; i < targets.numel(); ++i)
    check((t[i] >= 0 && t[i] < classes) || t[i] == ignore_index, op, ": target ", t[i],
          " at position ", i, " is outside [0, ", classes, ")");
}

/// Throws Error unless targets are class indices (or ignore_index) for x (..., C).
void check_indices(const char* op, const char* what, const Tensor& x, const Tensor& targets,
                   int64_t ignore_index) {
  check_tensor(op, "targets", targets, int64, rows_of(op, what, x));
  check_targets(op, targets.contiguous(), x.shape().back(), ignore_index);
}

}  // namespace

// loss = lse - x_t, lse = log sum_c exp(x_c)        dx_c = exp(x_c - lse) - [c = t]
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  const ProfileScope scope("cross_entropy");
  check_cross_entropy(logits, targets, options);
  if (targets.dtype() != int64) return cross_entropy_of_probabilities(logits, targets, options);
  const CrossEntropyInputs in{dense(logits), dense(targets), dense(options.class_weights)};
  check_targets("cross_entropy", in.targets, logits.shape().back(), options.ignore_index);
  CrossEntropyForward forward =
      dispatch_floating("cross_entropy", logits.dtype(),
                        [&]<class T>(TypeTag<T>) { return cross_entropy_forward<T>(in, options); });
  const Tensor loss = std::exchange(forward.loss, {});  // a rule must not hold its own output
  record_fused(
      "cross_entropy", {loss}, {logits, targets, options.class_weights}, saves_nothing,
      [options](auto& in) { return composed_cross_entropy(in[0], in[1], options); },
      [options, weights = in.weights, forward](Backward& back) {
        cross_entropy_rule(back, weights, forward, options);
      });
  return loss;
}

// loss = -w_t x_t, 0 if t is ignored
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NLLLossOptions& options) {
  const ProfileScope scope("nll_loss");
  check_indices("nll_loss", "log-probabilities", log_probs, targets, options.ignore_index);
  const Tensor& weights = options.class_weights;
  check_class_weights("nll_loss", log_probs, weights);
  const auto [losses, w] = at_targets(log_probs, targets, options.ignore_index, weights);
  return reduce(losses, options.reduction, sum(w));
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivOptions& options) {
  const ProfileScope scope("kl_div");
  check_matches("kl_div", "a target", input, target);
  if (options.log_target) return reduce(exp(target) * (target - input), options.reduction);
  const Tensor t_log_t = masked_fill(target * log(target), target == 0, 0);
  return reduce(t_log_t - target * input, options.reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  const ProfileScope scope("l1_loss");
  check_matches("l1_loss", "a target", input, target);
  return reduce(abs(input - target), options.reduction);
}

Tensor mse_loss(const Tensor& input, const Tensor& target, const LossOptions& options) {
  const ProfileScope scope("mse_loss");
  check_matches("mse_loss", "a target", input, target);
  const Tensor difference = input - target;
  return reduce(difference * difference, options.reduction);
}

Tensor hinge_loss(const Tensor& scores, const Tensor& targets, const LossOptions& options) {
  const ProfileScope scope("hinge_loss");
  check_matches("hinge_loss", "targets", scores, targets);
  check_values("hinge_loss", "targets -1 or 1", targets, (targets == 1) | (targets == -1));
  return reduce(relu(1.0 - targets * scores), options.reduction);
}

// With m = min(d, beta) both cases are m/beta (d - m/2), which never overflows and has no branch
// whose gradient would be 0 times infinity.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options) {
  const ProfileScope scope("smooth_l1_loss");
  const double beta = options.beta;
  check(beta >= 0 && std::isfinite(beta), "smooth_l1_loss: expected a finite beta >= 0, got ",
        beta);
  check_matches("smooth_l1_loss", "a target", input, target);
  const Tensor d = abs(input - target);
  // Kernels would flush a smaller beta to 0.
  if (beta < (d.dtype() == float32 ? 0x1p-126 : 0x1p-1022)) return reduce(d, options.reduction);
  const Tensor m = clamp(d, 0, beta);
  return reduce(m / beta * (d - m * 0.5), options.reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& targets,
                         const MultiMarginLossOptions& options) {
  const ProfileScope scope("multi_margin_loss");
  const auto& [reduction, margin, p, weights] = options;
  check(std::isfinite(margin), "multi_margin_loss: expected a finite margin, got ", margin);
  check(p == 1 || p == 2, "multi_margin_loss: expected p = 1 or 2, got ", p);
  check_indices("multi_margin_loss", "scores", x, targets, 0);
  check_class_weights("multi_margin_loss", x, weights);
  const Tensor t = targets.unsqueeze(-1), own = t == arange(x.size(-1));
  const Tensor too_near = masked_fill(relu(margin - gather(x, -1, t) + x), own, 0);
  Tensor losses =
      sum(p == 1 ? too_near : too_near * too_near, -1) / static_cast<double>(x.size(-1));
  if (weights.defined()) losses = losses * weights_of(targets, weights);
  return reduce(losses, reduction);
}

// dp = (p - t) / (p (1 - p)), its divisor at least 1e-12        dt = log(1 - p) - log p
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const BCEOptions& options) {
  const ProfileScope scope("binary_cross_entropy");
  check_matches("binary_cross_entropy", "targets", probabilities, targets);
  check_weights("binary_cross_entropy", "weights", probabilities, options.weights);
  const Tensor p = probabilities.detach(), t = targets.detach();
  check_values("binary_cross_entropy", "probabilities from 0 to 1", p, (p >= 0) & (p <= 1));
  const Tensor losses = -(t * clamp(log(p), -100, 0) + (1.0 - t) * clamp(log(1.0 - p), -100, 0));
  // The same logarithm with zeros masked first: its infinite gradient there times 0 would be NaN.
  auto bounded_log = [](const Tensor& of) {
    const Tensor zero = of.detach() == 0;
    return masked_fill(clamp(log(masked_fill(of, zero, 1)), -100, 0), zero, -100);
  };
  record("binary_cross_entropy", {losses}, {probabilities, targets}, saves_inputs,
         [bounded_log](Backward& b) {
           const Tensor p = b.input(0), q = 1.0 - p;
           if (b.needs(0)) b.give(0, b.grad() * (p - b.input(1)) / maximum(p * q, 1e-12));
           if (b.needs(1)) b.give(1, b.grad() * (bounded_log(q) - bounded_log(p)));
         });
  return reduce(options.weights.defined() ? losses * options.weights : losses, options.reduction);
}

namespace {

// -(t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))) = softplus(x) - t x
//   = softplus(-|x|) + w x, with w = 1 - t where x > 0, else -t; w x is 0 if w is, at infinity too.
// dx = sigmoid(x) - t    dt = -x
Tensor bce_of_logits(const Tensor& logits, const Tensor& targets) {
  const Tensor losses = empty(logits.shape(), logits.dtype());
  dispatch_floating("binary_cross_entropy_with_logits", logits.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T, T>(losses, logits, targets, [](T x, T t) {
      const T w = (x > 0 ? T{1} : T{0}) - t, product = w * x;
      return (w == 0 ? T{0} : product) + kernel::softplus(x > 0 ? -x : x);
    });
  });
  record("binary_cross_entropy_with_logits", {losses}, {logits, targets}, saves_inputs,
         [](Backward& b) {
           if (b.needs(0)) b.give(0, b.grad() * (sigmoid(b.input(0)) - b.input(1)));
           if (b.needs(1)) b.give(1, b.grad() * -b.input(0));
         });
  return losses;
}

/// a b; 0 where a is 0 and b infinite.
Tensor product_or_0(const Tensor& a, const Tensor& b) {
  return a * masked_fill(b, (a == 0) & (b == INFINITY), 0);
}

}  // namespace

// With weights w of the positive class: w t softplus(-x) + (1 - t) softplus(x)
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BCEWithLogitsOptions& options) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  const ProfileScope scope(op);
  check_matches(op, "targets", logits, targets);
  const Tensor &weights = options.weights, &positive = options.positive_weights;
  check_weights(op, "weights", logits, weights);
  check_weights(op, "positive weights", logits, positive);
  const Tensor losses = positive.defined() ? product_or_0(targets * positive, softplus(-logits)) +
                                                 product_or_0(1.0 - targets, softplus(logits))
                                           : bce_of_logits(logits, targets);
  return reduce(weights.defined() ? losses * weights : losses, options.reduction);
}

}  // namespace gradus
