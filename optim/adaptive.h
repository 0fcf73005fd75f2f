#pragma once
// RMSprop, Adagrad and Lion. RMSprop and Adagrad follow PyTorch, including the names of their
// states. In the formulas, p is a parameter, g its gradient and t the number of the update, from 1.

#include "gradus/optim/elementwise.h"

namespace gradus::optim {

struct RMSpropOptions {
  double lr = 1e-2;         ///< learning rate
  double alpha = 0.99;      ///< decay of the running mean v of g^2 and, if centered, of the mean m
                            ///< of g
  double eps = 1e-8;        ///< added to the square root
  double momentum = 0;      ///< decay of u in [0, 1), see RMSprop; 0 means no momentum
  bool centered = false;    ///< divide by the standard deviation of g
  double weight_decay = 0;  ///< adds weight_decay * p to the gradient
};
/// RMSprop: g += weight_decay p;  v = alpha v + (1-alpha) g^2;  p -= lr g / (sqrt(v) + eps).
/// With momentum: u = momentum u + g / (sqrt(v) + eps);  p -= lr u.
/// If centered, sqrt(v - m^2) replaces sqrt(v), with m = alpha m + (1-alpha) g. The root is 0 where
/// rounding makes v - m^2 negative (in PyTorch it is NaN there).
/// Tieleman & Hinton 2012, lecture 6.5; Graves 2013, arXiv 1308.0850, section 4.2.
class RMSprop : public ElementwiseOptimizer {
 public:
  RMSprop(ParameterGroups params, const RMSpropOptions& options = {});
};

struct AdagradOptions {
  double lr = 1e-2;         ///< learning rate
  double lr_decay = 0;      ///< in step t the rate is lr / (1 + (t-1) lr_decay)
  double initial_sum = 0;   ///< initial value of the sum s of g^2
  double eps = 1e-10;       ///< added to the square root
  double weight_decay = 0;  ///< adds weight_decay * p to the gradient
};
/// Adagrad: g += weight_decay p;  s += g^2;  p -= lr / (1 + (t-1) lr_decay) g / (sqrt(s) + eps).
/// Duchi, Hazan & Singer 2011, JMLR 12.
class Adagrad : public ElementwiseOptimizer {
 public:
  Adagrad(ParameterGroups params, const AdagradOptions& options = {});
};

struct LionOptions {
  double lr = 1e-4;                  ///< learning rate; a third to a tenth of AdamW's is usual
  double beta1 = 0.9, beta2 = 0.99;  ///< beta1: weight of m in the step; beta2: decay of the
                                     ///< running mean m of g
  double weight_decay = 0;           ///< each step multiplies p by 1 - lr * weight_decay
};
/// Lion: p = (1 - lr weight_decay) p - lr sign(beta1 m + (1-beta1) g);  m = beta2 m + (1-beta2) g.
/// The sign of 0 and of NaN is 0. Once an element's gradient is NaN, m stays NaN, and only weight
/// decay changes the element. Chen et al. 2023, arXiv 2302.06675.
class Lion : public ElementwiseOptimizer {
 public:
  Lion(ParameterGroups params, const LionOptions& options = {});
};

}  // namespace gradus::optim
