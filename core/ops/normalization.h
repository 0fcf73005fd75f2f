#pragma once
// Softmax; layer, RMS, batch and group norm; unit vectors and cosine similarity; and dropout.

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Returns y_i = exp(x_i) / sum_j exp(x_j) along dim, or 0 where all elements are -inf.
Tensor softmax(const Tensor& x, int64_t dim = -1);
/// Returns log(softmax(x)) along dim, or -inf where all elements are -inf. It is computed without
/// softmax(x), which could round to 0.
Tensor log_softmax(const Tensor& x, int64_t dim = -1);
/// Returns (x - mean) / sqrt(var + eps) * weight + bias over the last axis, of size n. weight and
/// bias are (n) or undefined. Ba, Kiros, Hinton 2016, arXiv 1607.06450.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
/// Returns x / sqrt(mean(x^2) + eps) * weight over the last axis, of size n: layer norm without
/// subtracting the mean. weight is (n) or undefined. Zhang & Sennrich 2019, arXiv 1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
/// The output of batch_norm, and the mean and variance used to normalise.
struct BatchNormOutput {
  Tensor y;          ///< the result, of x's shape
  Tensor mean, var;  ///< (C), outside the graph; the divisor of var is the number of elements per
                     ///< channel
};
/// Returns batch norm in training mode: (x - mean) / sqrt(var + eps) * weight + bias for x (N, C,
/// ...), with the mean and variance of the elements of each channel. weight and bias are (C) or
/// undefined. Throws Error if a channel has only one element. Ioffe & Szegedy 2015, arXiv
/// 1502.03167.
BatchNormOutput batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                           double eps = 1e-5);
/// Returns batch norm in evaluation mode: the formula of batch_norm with the given mean and
/// variance, both (C).
Tensor batch_norm_by(const Tensor& mean, const Tensor& var, const Tensor& x,
                     const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// Splits the channels of x (N, C, ...) into `groups` groups, normalises each group of each example
/// by the formula of layer_norm, then scales and shifts each channel by weight and bias, each (C)
/// or undefined. Throws Error unless `groups` divides C. Wu & He 2018, arXiv 1803.08494.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Returns x / max(|x|, eps) along dim with the p-norm |x| = (sum |x_i|^p)^(1/p), for p >= 1 or
/// infinity. For finite x, and p up to 64 or infinite, |x| overflows neither in forward nor in
/// backward.
Tensor normalize(const Tensor& x, int64_t dim = 1, double eps = 1e-12, double p = 2);
/// Returns the cosine of the angle between a and b (broadcast) along dim,
///   sum(a b) / (max(|a|, eps) max(|b|, eps)), as in PyTorch 1.13.
/// Where eps replaces a norm, no gradient flows through that norm; in PyTorch it does.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
/// In training mode, returns x with each element set to 0 with probability p and the others scaled
/// by 1/(1-p). The mask is drawn from the calling thread's generator. In evaluation mode, returns
/// x. Throws Error if p is outside [0, 1]. Srivastava et al. 2014.
Tensor dropout(const Tensor& x, double p);
/// Applies dropout in training and in evaluation mode, with the mask determined by `key`.
Tensor dropout(const Tensor& x, double p, RandomKey key);

}  // namespace gradus
