#include "gradus/nn/probability/distributions.h"

#include <numbers>

#include "gradus/core/core.h"
#include "gradus/core/internal.h"

namespace gradus::nn {

namespace {

/// Throws Error with the first element of x at which `valid`, of x's shape, is false.
void check_each(const char* op, const char* expected, const Tensor& x, const Tensor& valid) {
  if (all(valid).item<bool>()) return;
  const auto at = argmin(valid.to(int64)).item<int64_t>();
  fail(op, ": expected ", expected, ", got ", x.detach().flatten()[at].item(), " at position ", at);
}

/// Returns the shape to which `value` broadcasts with a distribution.
Shape check_value(const char* op, const Tensor& value, Dtype dtype, const Shape& shape) {
  check(value.dtype() == dtype, op, ": expected values of ", dtype, ", got ", value.dtype());
  return broadcast_shapes(op, value.shape(), shape);
}

/// Returns sample_shape + shape. Throws Error if this shape, followed by `more` further axes, has
/// too many axes.
Shape joined(const char* op, const Shape& sample_shape, const Shape& shape, int more = 0) {
  check(sample_shape.size() + shape.size() + more <= max_rank, op, ": samples ", sample_shape,
        " of a distribution of shape ", shape, " have too many axes");
  Shape both = sample_shape;
  for (const int64_t n : shape) both.push_back(n);
  checked_numel(op, both);
  return both;
}

/// Returns p x, a term of a mean under p, where p's shape broadcasts to x's. The term is 0 where p
/// is 0, whatever x is. Where p is not 0 and x is infinity, the term is infinity. No gradient flows
/// through these elements.
Tensor term(const Tensor& p, const Tensor& x) {
  const Tensor excluded = p == 0, infinite = (x == INFINITY) & !excluded;
  const Tensor product = p * masked_fill(x, infinite | excluded, 0);
  return masked_fill(product, infinite, INFINITY);
}

}  // namespace

// ---- normal ----

Normal::Normal(const Tensor& mean_, const Tensor& std_dev_) {
  check_floating("Normal", mean_);
  check_same_dtype("Normal", mean_, std_dev_);
  const Shape shape = broadcast_shapes("Normal", mean_.shape(), std_dev_.shape());
  check_each("Normal", "a mean that is not NaN", mean_, !isnan(mean_));
  check_each("Normal", "std_dev > 0", std_dev_, std_dev_ > 0);
  mean = mean_.expand(shape);
  std_dev = std_dev_.expand(shape);
}

Tensor Normal::sample(const Shape& sample_shape) const {
  const NoGrad no_grad;
  return rsample(sample_shape);
}

Tensor Normal::rsample(const Shape& sample_shape) const {
  return mean + std_dev * randn(joined("Normal::sample", sample_shape, shape()), mean.dtype());
}

Tensor Normal::log_prob(const Tensor& value) const {
  check_value("Normal::log_prob", value, mean.dtype(), shape());
  check_each("Normal::log_prob", "values that are not NaN", value, !isnan(value));
  const Tensor z = (value - mean) / std_dev;
  return z * z * -0.5 - log(std_dev) - 0.5 * std::log(2 * std::numbers::pi);
}

Tensor Normal::entropy() const { return log(std_dev) + 0.5 * (1 + std::log(2 * std::numbers::pi)); }

// log q.std_dev - log p.std_dev + ((p.std_dev / q.std_dev)^2 + z^2 - 1) / 2
Tensor kl(const Normal& p, const Normal& q) {
  check_same_dtype("kl", p.mean, q.mean);
  broadcast_shapes("kl", p.shape(), q.shape());
  const Tensor ratio = p.std_dev / q.std_dev, z = (p.mean - q.mean) / q.std_dev;
  return log(q.std_dev) - log(p.std_dev) + (ratio * ratio + z * z - 1) * 0.5;
}

// ---- categorical ----

namespace {

void check_classes(const Tensor& x) {
  check_shape("Categorical", "parameters", x, {"...", "K"});
  check_floating("Categorical", x);
  check(x.size(-1) >= 1, "Categorical: expected at least one class, got shape ", x.shape());
}

}  // namespace

Categorical Categorical::from_logits(const Tensor& logits) {
  check_classes(logits);
  const Tensor most = max(logits.detach(), -1).values;
  check_each("Categorical", "a finite largest logit in each row", most, abs(most) < INFINITY);
  return Categorical(log_softmax(logits, -1));
}

Categorical Categorical::from_probabilities(const Tensor& probabilities) {
  check_classes(probabilities);
  check_each("Categorical", "finite probabilities >= 0", probabilities,
             (probabilities >= 0) & (probabilities < INFINITY));
  const Tensor total = sum(probabilities, -1, keepdim), zero = probabilities == 0;
  check_each("Categorical", "a finite sum > 0 per row", total, (total > 0) & (total < INFINITY));
  const Tensor logs = masked_fill(log(masked_fill(probabilities, zero, 1)), zero, -INFINITY);
  return Categorical(logs - log(total));
}

Tensor Categorical::probabilities() const { return exp(log_probs); }

// Inverts the cumulative distribution function F at a uniform number u: the sample is the number of
// classes c with F(c) <= u F(K - 1). Since u < 1, no sample exceeds the last class of positive
// probability.
Tensor Categorical::sample(const Shape& sample_shape) const {
  const NoGrad no_grad;
  const Shape drawn = joined("Categorical::sample", sample_shape, shape(), 1);
  const Tensor below = cumsum(exp(log_probs.to(float64)), -1);
  const Tensor u = rand(drawn, float64) * below.select(-1, -1);
  return sum(below <= u.unsqueeze(-1), -1);
}

Tensor Categorical::log_prob(const Tensor& value) const {
  constexpr const char* op = "Categorical::log_prob";
  Shape shape = check_value(op, value, int64, this->shape());
  const int64_t classes = log_probs.size(-1);
  check_each(op, "values in [0, K)", value, (value >= 0) & (value < static_cast<double>(classes)));
  const Tensor index = value.expand(shape).unsqueeze(-1);
  shape.push_back(classes);
  return gather(log_probs.expand(shape), -1, index).squeeze(-1);
}

Tensor Categorical::entropy() const { return sum(term(exp(log_probs), -log_probs), -1); }

Tensor kl(const Categorical& p, const Categorical& q) {
  check_same_dtype("kl", p.log_probs, q.log_probs);
  check(p.log_probs.size(-1) == q.log_probs.size(-1),
        "kl: numbers of classes differ: ", p.log_probs.size(-1), " and ", q.log_probs.size(-1));
  broadcast_shapes("kl", p.shape(), q.shape());
  return sum(term(exp(p.log_probs), p.log_probs - q.log_probs), -1);
}

// ---- Bernoulli ----

Bernoulli Bernoulli::from_logits(const Tensor& logits) {
  check_floating("Bernoulli", logits);
  check_each("Bernoulli", "logits that are not NaN", logits, !isnan(logits));
  return Bernoulli(logits);
}

Bernoulli Bernoulli::from_probabilities(const Tensor& probabilities) {
  check_floating("Bernoulli", probabilities);
  const Tensor never = probabilities == 0, always = probabilities == 1;
  check_each("Bernoulli", "probabilities from 0 to 1", probabilities,
             (probabilities >= 0) & (probabilities <= 1));
  const Tensor p = masked_fill(probabilities, never | always, 0.5);
  const Tensor logits = log(p) - log1p(-p);
  return Bernoulli(masked_fill(masked_fill(logits, never, -INFINITY), always, INFINITY));
}

Tensor Bernoulli::probabilities() const { return sigmoid(logits); }

Tensor Bernoulli::sample(const Shape& sample_shape) const {
  const NoGrad no_grad;
  const Tensor u = rand(joined("Bernoulli::sample", sample_shape, shape()), float64);
  return (u < sigmoid(logits.to(float64))).to(logits.dtype());
}

Tensor Bernoulli::log_prob(const Tensor& value) const {
  constexpr const char* op = "Bernoulli::log_prob";
  const Shape shape = check_value(op, value, logits.dtype(), logits.shape());
  check_each(op, "values 0 or 1", value, (value == 0) | (value == 1));
  return -binary_cross_entropy_with_logits(logits.expand(shape), value.expand(shape),
                                           {.reduction = Reduction::none});
}

// With p = sigmoid(x): -log p = softplus(-x) and -log(1 - p) = softplus(x).
Tensor Bernoulli::entropy() const {
  return term(sigmoid(logits), softplus(-logits)) + term(sigmoid(-logits), softplus(logits));
}

Tensor kl(const Bernoulli& p, const Bernoulli& q) {
  check_same_dtype("kl", p.logits, q.logits);
  broadcast_shapes("kl", p.shape(), q.shape());
  return term(sigmoid(p.logits), softplus(-q.logits) - softplus(-p.logits)) +
         term(sigmoid(-p.logits), softplus(q.logits) - softplus(p.logits));
}

}  // namespace gradus::nn
