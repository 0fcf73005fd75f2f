#include "gradus/optim/optimizers.h"

#include "gradus/core/internal.h"
#include "gradus/optim/kernels.h"

namespace gradus::optim {

namespace {
std::vector<std::string> momentum_state(double momentum) {
  if (momentum == 0) return {};
  return {"momentum"};
}
}  // namespace

SGD::SGD(ParameterGroups params, const SGDOptions& options)
    : Optimizer("SGD", std::move(params), options.lr, options.weight_decay,
                momentum_state(options.momentum)),
      options_(options) {
  check(options.momentum >= 0 && options.momentum < 1, "SGD: expected 0 <= momentum < 1, got ",
        options.momentum);
  check(!options.nesterov || options.momentum > 0, "SGD: nesterov needs momentum > 0");
}

template <class T>
void SGD::update_by(const Chunk<T>& c) const {
  const kernel::SgdStep step{c.lr, options_.momentum, c.weight_decay, c.grad_scale,
                             options_.nesterov};
  kernel::sgd(c.n, step, c.param, c.grad, c.state[0]);
}

void SGD::update(const Chunk<float>& chunk) const { update_by(chunk); }
void SGD::update(const Chunk<double>& chunk) const { update_by(chunk); }

Adam::Adam(ParameterGroups params, const AdamOptions& options)
    : Adam("Adam", std::move(params), options, false) {}

Adam::Adam(const char* name, ParameterGroups params, const AdamOptions& options, bool decoupled)
    : Optimizer(name, std::move(params), options.lr, options.weight_decay,
                {"exp_avg", "exp_avg_sq"}),
      options_(options),
      decoupled_(decoupled) {
  for (double beta : {options.beta1, options.beta2})
    check(beta >= 0 && beta < 1, name, ": expected betas in [0, 1), got ", beta);
  check(options.eps >= 0, name, ": expected eps >= 0, got ", options.eps);
}

template <class T>
void Adam::update_by(const Chunk<T>& c) const {
  const kernel::AdamStep step{c.lr,           options_.beta1, options_.beta2, options_.eps,
                              c.weight_decay, c.grad_scale,   decoupled_,     c.step};
  kernel::adam(c.n, step, c.param, c.grad, c.state[0], c.state[1]);
}

void Adam::update(const Chunk<float>& chunk) const { update_by(chunk); }
void Adam::update(const Chunk<double>& chunk) const { update_by(chunk); }

AdamW::AdamW(ParameterGroups params, const AdamWOptions& options)
    : Adam("AdamW", std::move(params),
           {options.lr, options.beta1, options.beta2, options.eps, options.weight_decay}, true) {}

}  // namespace gradus::optim
