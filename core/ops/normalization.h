#pragma once
// Softmax, layer norm, batch norm, unit vectors, and dropout.

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// y_i = exp(x_i) / sum_j exp(x_j) along dim; 0 where all elements are -inf.
Tensor softmax(const Tensor& x, int64_t dim = -1);
/// log(softmax(x)) along dim, without overflow.
Tensor log_softmax(const Tensor& x, int64_t dim = -1);
/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis, of size n; weight and bias (n)
/// or undefined. Ba, Kiros, Hinton 2016, arXiv 1607.06450.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) * weight over the last axis, of size n: layer norm without the mean.
/// weight (n) or undefined. Zhang & Sennrich 2019, arXiv 1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
/// batch_norm's output and the mean and variance it normalised by.
struct BatchNormOutput {
  Tensor y;          ///< x's shape
  Tensor mean, var;  ///< (C), outside the graph; var's divisor is n, a channel's elements
};
/// Batch norm in training: (x - mean) / sqrt(var + eps) * weight + bias for x (N, C, ...), with the
/// mean and variance of each channel's n elements; weight and bias (C) or undefined. Throws Error
/// if n is 1. Ioffe & Szegedy 2015, arXiv 1502.03167.
BatchNormOutput batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                           double eps = 1e-5);
/// Batch norm in evaluation, with a given mean and variance (C).
Tensor batch_norm_by(const Tensor& mean, const Tensor& var, const Tensor& x,
                     const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// Splits each example's channels, x (N, C, ...), into `groups` groups, normalises each group like
/// layer norm, then scales and shifts by weight and bias (C), if defined. Wu & He 2018, arXiv
/// 1803.08494.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / max(|x|, eps) along dim with the p-norm |x| = (sum |x_i|^p)^(1/p), p >= 1 or infinity.
/// Neither |x| nor the gradient overflows for finite x.
Tensor normalize(const Tensor& x, int64_t dim = 1, double eps = 1e-12, double p = 2);
/// The cosine of the angle between a and b (broadcast) along dim:
///   sum(a b) / (max(|a|, eps) max(|b|, eps)), as in PyTorch 1.13.
/// The gradient is PyTorch's too, except where eps replaces |a|: PyTorch differentiates |a| even
/// there.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
/// In training mode, zeroes each element with probability p and scales the others by 1/(1-p); the
/// mask is drawn from the calling thread's generator. In evaluation mode, returns x. Srivastava et
/// al. 2014.
Tensor dropout(const Tensor& x, double p);
/// Dropout as in training mode, with the mask determined by `key`.
Tensor dropout(const Tensor& x, double p, RandomKey key);

}  // namespace gradus
