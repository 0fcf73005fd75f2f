#pragma once
// RMSprop, Adagrad and Lion. RMSprop and Adagrad follow PyTorch, including the names of their
// states.

#include "gradus/optim/elementwise.h"

namespace gradus::optim {

struct RMSpropOptions {
  double lr = 1e-2;         ///< learning rate
  double alpha = 0.99;      ///< decay of the running mean of the squared gradient and, if centered,
                            ///< of the running mean of the gradient
  double eps = 1e-8;        ///< added to the denominator of the update
  double momentum = 0;      ///< decay of the momentum buffer, in [0, 1); 0 means no momentum
  bool centered = false;    ///< divide by the standard deviation of the gradient instead of its
                            ///< root mean square
  double weight_decay = 0;  ///< adds weight_decay times the parameter to the gradient
};
/// RMSprop updates a parameter p with gradient g and running mean v of g^2:
///   g += weight_decay p;  v = alpha v + (1-alpha) g^2;  p -= lr g / (sqrt(v) + eps)
/// With momentum, p -= lr u instead, with a momentum buffer u = momentum u + g / (sqrt(v) + eps).
/// If centered, sqrt(v - m^2) replaces sqrt(v), with m = alpha m + (1-alpha) g. Where rounding
/// makes v - m^2 negative, the root is 0 (in PyTorch, NaN). Tieleman & Hinton 2012, lecture 6.5;
/// Graves 2013, arXiv 1308.0850, section 4.2.
class RMSprop : public ElementwiseOptimizer {
 public:
  RMSprop(ParameterGroups params, const RMSpropOptions& options = {});
};

struct AdagradOptions {
  double lr = 1e-2;         ///< learning rate
  double lr_decay = 0;      ///< update t (from 1) uses the learning rate lr / (1 + (t-1) lr_decay)
  double initial_sum = 0;   ///< initial value of the sum of squared gradients
  double eps = 1e-10;       ///< added to the denominator of the update
  double weight_decay = 0;  ///< adds weight_decay times the parameter to the gradient
};
/// Adagrad. Update t (from 1) of a parameter p with gradient g and sum s of squared gradients is
///   g += weight_decay p;  s += g^2;  p -= lr / (1 + (t-1) lr_decay) g / (sqrt(s) + eps).
/// Duchi, Hazan & Singer 2011, JMLR 12.
class Adagrad : public ElementwiseOptimizer {
 public:
  Adagrad(ParameterGroups params, const AdagradOptions& options = {});
};

struct LionOptions {
  double lr = 1e-4;                  ///< learning rate; usually a tenth to a third of AdamW's
  double beta1 = 0.9, beta2 = 0.99;  ///< beta1: weight of the running mean m in the update;
                                     ///< beta2: decay of m
  double weight_decay = 0;           ///< each step scales the parameter by 1 - lr * weight_decay
};
/// Lion updates a parameter p with gradient g and running mean m of g:
///   p = (1 - lr weight_decay) p - lr sign(beta1 m + (1-beta1) g);  m = beta2 m + (1-beta2) g
/// The sign of 0 and of NaN is 0. Once an element's gradient is NaN, m stays NaN, and only weight
/// decay changes the element. Chen et al. 2023, arXiv 2302.06675.
class Lion : public ElementwiseOptimizer {
 public:
  Lion(ParameterGroups params, const LionOptions& options = {});
};

}  // namespace gradus::optim
