#pragma once
// SGD, Adam and AdamW, as PyTorch defines them.

#include "gradus/optim/optimizer.h"

namespace gradus::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
/// g += weight_decay p;  u = momentum u + g;  p -= lr u, or with Nesterov's
/// momentum p -= lr (g + momentum u).
class SGD : public Optimizer {
 public:
  SGD(ParameterGroups params, const SGDOptions& options = {});

 private:
  template <class T>
  void update_by(const Chunk<T>& chunk) const;
  void update(const Chunk<float>& chunk) const override;
  void update(const Chunk<double>& chunk) const override;
  SGDOptions options_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};
/// g += weight_decay p;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;
/// p -= lr m / (1-beta1^t) / (sqrt(v / (1-beta2^t)) + eps). Kingma & Ba 2015, arXiv 1412.6980.
class Adam : public Optimizer {
 public:
  Adam(ParameterGroups params, const AdamOptions& options = {});

 protected:
  Adam(const char* name, ParameterGroups params, const AdamOptions& options, bool decoupled);

 private:
  template <class T>
  void update_by(const Chunk<T>& chunk) const;
  void update(const Chunk<float>& chunk) const override;
  void update(const Chunk<double>& chunk) const override;
  AdamOptions options_;
  bool decoupled_;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};
/// Adam whose weight decay bypasses the moments: p = (1 - lr weight_decay) p - Adam's step.
/// Loshchilov & Hutter 2019, arXiv 1711.05101.
class AdamW : public Adam {
 public:
  AdamW(ParameterGroups params, const AdamWOptions& options = {});
};

}  // namespace gradus::optim
