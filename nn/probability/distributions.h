#pragma once
// Probability distributions, one per element of batched parameters.
//
// shape() returns the shape of the parameters; Categorical leaves out the axis of classes. Samples
// have shape sample_shape + shape(), where + concatenates shapes. sample() draws from the calling
// thread's generator and has no gradient. log_prob accepts values that broadcast with shape(). Its
// result has the shape to which both broadcast. The result of entropy has the shape shape().
// log_prob, entropy and kl are differentiable. Where a probability is 0 or 1, these functions
// return their limits (0 log 0 is 0), not NaN. Infinite terms of kl contribute no gradient.
// Infinite parameters or values of a Normal are accepted, but may give NaN. All functions throw
// Error if parameters or values are outside their domain or have a wrong dtype, or if shapes do not
// broadcast.

#include "gradus/core/tensor/tensor.h"

namespace gradus::nn {

/// The normal distribution.
struct Normal {
  Tensor mean, std_dev;  ///< mean and standard deviation, both broadcast to shape()
  /// Throws Error unless `mean` and `std_dev` broadcast and have the same dtype, float32 or
  /// float64. Also throws Error if a mean is NaN, or if a standard deviation is NaN or not above 0.
  Normal(const Tensor& mean, const Tensor& std_dev);
  /// Returns the shape to which mean and std_dev broadcast.
  const Shape& shape() const { return mean.shape(); }
  /// Returns samples of mean's dtype and of the shape `sample_shape` followed by shape().
  Tensor sample(const Shape& sample_shape = {}) const;
  /// Returns samples that are differentiable in the parameters: mean + std_dev * e with e from
  /// Normal(0, 1), in the same dtype and shape as sample(). Kingma & Welling 2013, arXiv 1312.6114,
  /// section 2.4.
  Tensor rsample(const Shape& sample_shape = {}) const;
  /// Returns the logarithm of the density, -z^2/2 - log std_dev - log(2 pi)/2 with z = (value -
  /// mean) / std_dev.
  Tensor log_prob(const Tensor& value) const;
  /// Returns the entropy, log std_dev + (1 + log(2 pi))/2.
  Tensor entropy() const;
};

/// The distribution of a class from 0 to K - 1.
struct Categorical {
  Tensor log_probs;  ///< log-probabilities of the K classes, along the last axis
  /// Returns the distribution with p = softmax(logits) over the last axis of logits (..., K).
  /// Throws Error if a logit is NaN or +infinity, or if all logits of a row are -infinity.
  static Categorical from_logits(const Tensor& logits);
  /// Returns the distribution with p = probabilities / s, where s are the sums over the last axis
  /// of probabilities (..., K). Throws Error unless all probabilities are >= 0 and each sum is
  /// finite and > 0. An element that is 0 gets a gradient only through s, because its own
  /// log-probability is the constant -infinity.
  static Categorical from_probabilities(const Tensor& probabilities);
  /// Returns the shape of log_probs without the axis of classes.
  Shape shape() const { return log_probs.shape().without(-1); }
  /// Returns the probabilities of the K classes, along the last axis.
  Tensor probabilities() const;
  /// Returns sampled classes, int64, of the shape `sample_shape` followed by shape(). A class of
  /// probability 0 is never drawn. A temporary tensor takes K bytes per sample.
  Tensor sample(const Shape& sample_shape = {}) const;
  /// Returns the log-probability of the classes `value` (int64), or -infinity for a class of
  /// probability 0.
  Tensor log_prob(const Tensor& value) const;
  /// Returns the entropy, -sum_c p_c log p_c over the classes c.
  Tensor entropy() const;

 private:
  explicit Categorical(Tensor log_p) : log_probs(std::move(log_p)) {}
};

/// The distribution of a value that is 0 or 1.
struct Bernoulli {
  Tensor logits;  ///< log(p / (1 - p)), where p is the probability of 1
  /// Returns the distribution with p = sigmoid(logits). Logits may be infinite: then p is 0 or 1.
  static Bernoulli from_logits(const Tensor& logits);
  /// Returns the distribution with p = probabilities, which must be from 0 to 1. Elements that are
  /// 0 or 1 get no gradient.
  static Bernoulli from_probabilities(const Tensor& probabilities);
  /// Returns the shape of the logits.
  const Shape& shape() const { return logits.shape(); }
  /// Returns the probability of the value 1, per distribution.
  Tensor probabilities() const;
  /// Returns samples, 0 or 1 in the logits' dtype, of the shape `sample_shape` followed by shape().
  Tensor sample(const Shape& sample_shape = {}) const;
  /// Returns the log-probability of `value`: log p where `value` is 1, and log(1 - p) where it is
  /// 0. Here p is the probability of 1. Values must be 0 or 1, in the logits' dtype.
  Tensor log_prob(const Tensor& value) const;
  /// Returns the entropy, -p log p - (1 - p) log(1 - p), where p is the probability of 1.
  Tensor entropy() const;

 private:
  explicit Bernoulli(Tensor x) : logits(std::move(x)) {}
};

///@{
/// Returns the Kullback-Leibler divergence KL(p || q), the mean of log(p / q) under p, in the shape
/// to which p.shape() and q.shape() broadcast. The divergence is infinite where a value has
/// probability 0 under q but not under p. Throws Error if the dtypes or the numbers of classes
/// differ.
Tensor kl(const Normal& p, const Normal& q);
Tensor kl(const Categorical& p, const Categorical& q);
Tensor kl(const Bernoulli& p, const Bernoulli& q);
///@}

}  // namespace gradus::nn
