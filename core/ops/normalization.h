#pragma once
// Softmax, layer norm, batch norm, vectors of length 1, and dropout.

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// y_i = exp(x_i) / sum_j exp(x_j) along dim; a slice that is all -inf gives 0.
Tensor softmax(const Tensor& x, int64_t dim = -1);
/// log(softmax(x)) along dim, without overflow.
Tensor log_softmax(const Tensor& x, int64_t dim = -1);
/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis; weight and bias (n) or
/// undefined. Ba, Kiros, Hinton 2016, arXiv 1607.06450.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) over the last axis, times weight (undefined: 1): layer norm that takes
/// no mean off. Zhang & Sennrich 2019, arXiv 1910.07467.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
/// What batch_norm gives: its output, and what it normalised by.
struct BatchNormOutput {
  Tensor y;          ///< x's shape
  Tensor mean, var;  ///< (C), outside the graph; the variance with divisor n
};
/// As in training: (x - mean) / sqrt(var + eps) * weight + bias for x (N, C, ...), mean and variance
/// each channel's over all its n numbers; weight and bias (C) or undefined. Throws Error where n is
/// 1. Ioffe & Szegedy 2015, arXiv 1502.03167.
BatchNormOutput batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                           double eps = 1e-5);
/// The same with a mean and a variance (C) that are given, as in evaluation.
Tensor batch_norm_by(const Tensor& mean, const Tensor& var, const Tensor& x,
                     const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// Layer norm of each of `groups` groups of a sample's channels, x (N, C, ...), then times weight
/// plus bias (C), where defined. Wu & He 2018, arXiv 1803.08494.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / max(|x|, eps) along dim, |x| = (sum of |x_i|^p)^(1/p): vectors of length 1 but for the
/// shortest. p >= 1, infinity among them. Neither |x| nor the gradient overflows for finite x.
Tensor normalize(const Tensor& x, int64_t dim = 1, double eps = 1e-12, double p = 2);
/// The cosine of the angle between a and b, broadcast, along dim: the sum of
/// a b / (max(|a|, eps) max(|b|, eps)), as in PyTorch 1.13; so is the gradient, but that PyTorch
/// differentiates |a| where eps stands in its place.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
/// In training mode: each element is 0 with probability p, else scaled by 1/(1-p); which, is drawn
/// from the thread's generator. In evaluation mode: x. Srivastava et al. 2014.
Tensor dropout(const Tensor& x, double p);
/// As dropout in training mode, with the mask that `key` determines.
Tensor dropout(const Tensor& x, double p, RandomKey key);

}  // namespace gradus
