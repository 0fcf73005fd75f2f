#pragma once
// Probability distributions, one per element of batched parameters.
//
// A distribution has the shape of its parameters, and samples have shape sample_shape + shape().
// sample() draws from the calling thread's generator and has no gradient. log_prob, entropy and kl
// are differentiable; log_prob takes values that broadcast with the distribution's shape. Where a
// probability is 0 or 1 they take their limits (0 log 0 is 0), without a NaN, and no gradient flows
// through a term that is infinite there. All throw Error if parameters or values are outside their
// domain, or if shapes do not broadcast.

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// The normal distribution.
struct Normal {
  Tensor mean, std_dev;  ///< both of shape(), broadcast
  /// Throws Error unless mean and std_dev > 0 have one dtype and broadcast.
  Normal(const Tensor& mean, const Tensor& std_dev);
  /// The shape to which mean and std_dev broadcast.
  const Shape& shape() const { return mean.shape(); }
  /// Samples of the parameters' dtype.
  Tensor sample(const Shape& sample_shape = {}) const;
  /// mean + std_dev * e, e from Normal(0, 1): samples that are differentiable in the parameters.
  /// Kingma & Welling 2013, arXiv 1312.6114, section 2.4.
  Tensor rsample(const Shape& sample_shape = {}) const;
  /// The logarithm of the density: -z^2/2 - log std_dev - log(2 pi)/2, z = (value - mean) /
  /// std_dev.
  Tensor log_prob(const Tensor& value) const;
  /// log std_dev + (1 + log(2 pi))/2
  Tensor entropy() const;
};

/// The distribution of a class 0, ..., K - 1.
struct Categorical {
  Tensor log_probs;  ///< shape() + (K)
  /// p = softmax(logits) over the last axis: logits (..., K). A logit may be -infinity, but not all
  /// of a row.
  static Categorical from_logits(const Tensor& logits);
  /// p = probabilities / their sum over the last axis: probabilities (..., K), finite, none below
  /// 0, not all of a row 0. Where one is 0, it gets no gradient.
  static Categorical from_probabilities(const Tensor& probabilities);
  /// The batch's shape, without the axis of classes.
  Shape shape() const { return log_probs.shape().without(-1); }
  /// The probabilities, shape() + (K).
  Tensor probabilities() const;
  /// Classes, int64. A class of probability 0 is never drawn. Takes K bytes of memory per sample.
  Tensor sample(const Shape& sample_shape = {}) const;
  /// log p_value: value int64. -infinity where p_value is 0.
  Tensor log_prob(const Tensor& value) const;
  /// -sum_c p_c log p_c
  Tensor entropy() const;

 private:
  explicit Categorical(Tensor log_p) : log_probs(std::move(log_p)) {}
};

/// The distribution of a value 0 or 1.
struct Bernoulli {
  Tensor logits;  ///< log p / (1 - p), where p is the probability of 1
  /// p = sigmoid(logits). Logits may be infinite: then p is 0 or 1.
  static Bernoulli from_logits(const Tensor& logits);
  /// p = probabilities, from 0 to 1. Where one is 0 or 1, it gets no gradient.
  static Bernoulli from_probabilities(const Tensor& probabilities);
  /// The shape of the logits.
  const Shape& shape() const { return logits.shape(); }
  /// The probabilities of 1.
  Tensor probabilities() const;
  /// Values 0 and 1 of the logits' dtype.
  Tensor sample(const Shape& sample_shape = {}) const;
  /// value log p + (1 - value) log(1 - p): value 0 or 1, in the logits' dtype.
  Tensor log_prob(const Tensor& value) const;
  /// -p log p - (1 - p) log(1 - p)
  Tensor entropy() const;

 private:
  explicit Bernoulli(Tensor x) : logits(std::move(x)) {}
};

///@{
/// The Kullback-Leibler divergence of p from q, the mean of log(p / q) under p, in the shape to
/// which theirs broadcast. Infinite where q excludes what p does not.
Tensor kl(const Normal& p, const Normal& q);
Tensor kl(const Categorical& p, const Categorical& q);
Tensor kl(const Bernoulli& p, const Bernoulli& q);
///@}

}  // namespace gradus::nn
