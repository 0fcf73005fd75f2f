#pragma once
// SGD, Adam and AdamW as in PyTorch, with PyTorch's names for the states, except that SGD's
// momentum_buffer is called "momentum". In the formulas, p is a parameter, g its gradient and t the
// number of the update, from 1.

#include "gradus/optim/elementwise.h"

namespace gradus::optim {

struct SGDOptions {
  double lr = 1e-3;         ///< learning rate
  double momentum = 0;      ///< decay of u in [0, 1), see SGD; 0 means no momentum
  bool nesterov = false;    ///< use Nesterov momentum, see SGD; requires momentum > 0
  double weight_decay = 0;  ///< adds weight_decay * p to the gradient
};
/// SGD: g += weight_decay p;  u = momentum u + g;  p -= lr u.
/// With `nesterov`: p -= lr (g + momentum u).
class SGD : public ElementwiseOptimizer {
 public:
  SGD(ParameterGroups params, const SGDOptions& options = {});
};

struct AdamOptions {
  double lr = 1e-3;                   ///< learning rate
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the running means m of g and v of g^2
  double eps = 1e-8;                  ///< added to the square root
  double weight_decay = 0;            ///< adds weight_decay * p to the gradient
};
/// Adam: g += weight_decay p;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
/// p -= lr m / (1-beta1^t) / (sqrt(v / (1-beta2^t)) + eps). Kingma & Ba 2015, arXiv 1412.6980.
class Adam : public ElementwiseOptimizer {
 public:
  Adam(ParameterGroups params, const AdamOptions& options = {});
};

struct AdamWOptions {
  double lr = 1e-3;                   ///< learning rate
  double beta1 = 0.9, beta2 = 0.999;  ///< decay of the running means m of g and v of g^2
  double eps = 1e-8;                  ///< added to the square root
  double weight_decay = 0.01;         ///< each step multiplies p by 1 - lr * weight_decay
};
/// AdamW: Adam with weight decay that does not enter m and v: p = (1 - lr weight_decay) p - lr m /
/// (1-beta1^t) / (sqrt(v / (1-beta2^t)) + eps). Loshchilov & Hutter 2019, arXiv 1711.05101.
class AdamW : public ElementwiseOptimizer {
 public:
  AdamW(ParameterGroups params, const AdamWOptions& options = {});
};

}  // namespace gradus::optim
