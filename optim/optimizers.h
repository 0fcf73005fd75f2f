#pragma once
// SGD, Adam and AdamW as in PyTorch, with PyTorch's names for the states, except that SGD's
// momentum_buffer is called "momentum".

#include "gradus/optim/elementwise.h"

namespace gradus::optim {

struct SGDOptions {
  double lr = 1e-3;         ///< learning rate
  double momentum = 0;      ///< decay of the momentum buffer, in [0, 1); 0 means no momentum
  bool nesterov = false;    ///< use Nesterov momentum; requires momentum > 0
  double weight_decay = 0;  ///< adds weight_decay times the parameter to the gradient
};
/// SGD updates a parameter p with gradient g and momentum buffer u:
///   g += weight_decay p;  u = momentum u + g;  p -= lr u
/// With `nesterov`, p -= lr (g + momentum u).
class SGD : public ElementwiseOptimizer {
 public:
  SGD(ParameterGroups params, const SGDOptions& options = {});
};

struct AdamOptions {
  double lr = 1e-3;                   ///< learning rate
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the running means of the gradient (beta1) and of
                                      ///< its square (beta2)
  double eps = 1e-8;                  ///< added to the denominator of the update
  double weight_decay = 0;            ///< adds weight_decay times the parameter to the gradient
};
/// Adam. Update t (from 1) of a parameter p with gradient g is
///   g += weight_decay p;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
///   p -= lr m / (1-beta1^t) / (sqrt(v / (1-beta2^t)) + eps).
/// Kingma & Ba 2015, arXiv 1412.6980.
class Adam : public ElementwiseOptimizer {
 public:
  Adam(ParameterGroups params, const AdamOptions& options = {});
};

struct AdamWOptions {
  double lr = 1e-3;                   ///< learning rate
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the running means of the gradient (beta1) and of
                                      ///< its square (beta2)
  double eps = 1e-8;                  ///< added to the denominator of the update
  double weight_decay = 0.01;         ///< each step scales the parameter by 1 - lr * weight_decay
};
/// AdamW: Adam with decoupled weight decay. Update t (from 1) of a parameter p with gradient g is
///   m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
///   p = (1 - lr weight_decay) p - lr m / (1-beta1^t) / (sqrt(v / (1-beta2^t)) + eps).
/// Loshchilov & Hutter 2019, arXiv 1711.05101.
class AdamW : public ElementwiseOptimizer {
 public:
  AdamW(ParameterGroups params, const AdamWOptions& options = {});
};

}  // namespace gradus::optim
