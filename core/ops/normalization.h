#pragma once
// Softmax; layer, RMS, batch and group norm; unit vectors and cosine similarity; and dropout.

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns y_i = exp(x_i) / sum_j exp(x_j) along dim, without overflow. If all elements along dim
/// are -inf, y is 0. Throws Error unless x is float32 or float64 and has at least one axis.
Tensor softmax(const Tensor& x, int64_t dim = -1);
/// Returns log(softmax(x)) along dim, computed without softmax(x), which could round to 0. If all
/// elements along dim are -inf, the result is -inf.
Tensor log_softmax(const Tensor& x, int64_t dim = -1);
/// Returns (x - mean) / sqrt(var + eps) * weight + bias, with the mean and variance over the last
/// axis, of size n. weight and bias are (n) or undefined. Throws Error, as all norms below do, if
/// eps is negative. Ba, Kiros, Hinton 2016, arXiv 1607.06450.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
/// Returns x / sqrt(mean(x^2) + eps) * weight, with the mean over the last axis, of size n. This is
/// layer norm without subtracting the mean. weight is (n) or undefined. Zhang & Sennrich 2019,
/// arXiv 1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
/// The output of batch_norm for x (N, C, ...), and the mean and variance used to normalise.
struct BatchNormOutput {
  Tensor y;  ///< the result, of x's shape
  ///@{
  /// The mean and the variance of each channel, (C), detached. The variance is biased: its divisor
  /// is the number of elements per channel.
  Tensor mean, var;
  ///@}
};
/// Returns batch norm in training mode: (x - mean) / sqrt(var + eps) * weight + bias for x
/// (N, C, ...), with the mean and variance of the elements of each channel. weight and bias are (C)
/// or undefined. Throws Error if a channel has only one element. Ioffe & Szegedy 2015, arXiv
/// 1502.03167.
BatchNormOutput batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                           double eps = 1e-5);
/// Returns batch norm in evaluation mode: (x - mean) / sqrt(var + eps) * weight + bias for x
/// (N, C, ...), with the given mean and variance of each channel, both (C). weight and bias are (C)
/// or undefined.
Tensor batch_norm_by(const Tensor& mean, const Tensor& var, const Tensor& x,
                     const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// Returns group norm of x (N, C, ...): (x - mean) / sqrt(var + eps) * weight + bias. The channels
/// are divided into `groups` groups of equal size, and each group of each example has its own mean
/// and variance. weight and bias are (C) or undefined. Throws Error unless `groups` divides C. Wu &
/// He 2018, arXiv 1803.08494.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Returns x / max(|x|, eps), where |x| = (sum |x_i|^p)^(1/p) is the p-norm along dim. p may be
/// infinite. If x is finite, and p is at most 64 or infinite, |x| and its gradient are computed
/// without overflow. Throws Error unless p >= 1, and eps is finite and >= 0.
Tensor normalize(const Tensor& x, int64_t dim = 1, double eps = 1e-12, double p = 2);
/// Returns the cosine of the angle between the vectors of a and b along dim,
///   sum(a b) / (max(|a|, eps) max(|b|, eps)).
/// a and b broadcast. Where eps replaces a norm, no gradient flows through that norm. PyTorch 1.13
/// returns the same values, but its gradient flows through the replaced norm.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
/// Returns x in evaluation mode. In training mode, returns x with each element set to 0 with
/// probability p, and all other elements multiplied by 1/(1-p). The mask is drawn from the calling
/// thread's generator. Throws Error if p is outside [0, 1]. Srivastava et al. 2014.
Tensor dropout(const Tensor& x, double p);
/// Returns x with each element set to 0 with probability p, and all other elements multiplied by
/// 1/(1-p), in training mode and in evaluation mode. `key` determines which elements are set to 0.
Tensor dropout(const Tensor& x, double p, RandomKey key);

}  // namespace gradus
