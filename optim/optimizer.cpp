#include "gradus/optim/optimizer.h"

#include "gradus/core/files/named_tensors.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::optim {

ParameterGroups decay_groups(const std::vector<Tensor>& params) {
  ParameterGroup decay, rest{.params = {}, .weight_decay = 0};
  for (const Tensor& p : params) (p.rank() >= 2 ? decay : rest).params.push_back(p);
  return std::vector{decay, rest};
}

// ---- Optimizer ----

double Optimizer::step(const StepOptions& options) {
  internal::check_max_norm(name_, options.max_grad_norm);
  check(!options.grad_norm || *options.grad_norm >= 0, name_,
        ": expected a gradient norm >= 0, got ", options.grad_norm.value_or(0));
  NoGrad no_grad;
  check_step();
  const bool clip = std::isfinite(options.max_grad_norm);
  const double norm = options.grad_norm ? *options.grad_norm
                      : clip            ? internal::norm_of(gradients())
                                        : 0;
  apply(clip ? internal::clip_factor(norm, options.max_grad_norm) : 1);
  return norm;
}

void Optimizer::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

// ---- GroupOptimizer ----

GroupOptimizer::GroupOptimizer(const char* name, ParameterGroups groups, double lr,
                               double weight_decay, std::vector<State> states, bool elementwise)
    : Optimizer(name), groups_(std::move(groups.list)), states_(std::move(states)) {
  elementwise_ = elementwise;
  set_lr(lr);
  std::set<std::string> names;
  for (const State& s : states_)
    check(names.insert(s.name).second, name, ": two states are called ", s.name);
  bool any = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    ParameterGroup& group = groups_[i];
    if (!group.weight_decay) group.weight_decay = weight_decay;
    check(*group.weight_decay >= 0 && std::isfinite(*group.weight_decay) && group.lr_scale >= 0 &&
              std::isfinite(group.lr_scale),
          name, ": expected a finite weight_decay and lr_scale >= 0, got ", *group.weight_decay,
          " and ", group.lr_scale);
    for (const Tensor& p : group.params) {
      const size_t n = slots_.size();
      check(p.defined(), name, ": parameter ", n, " is undefined");
      const bool is_frozen = is_compressed(p.dtype()) && !p.requires_grad();
      check(p.is_leaf() && (is_floating(p.dtype()) || is_frozen) && p.is_contiguous(), label(n, p),
            ": expected a contiguous leaf tensor of float32 or float64");
      any = any || p.requires_grad();
      slots_.push_back({.param = p, .state = {}, .dtype = {}, .step = 0, .group = i});
      if (p.requires_grad()) make_state(slots_.back());
    }
  }
  internal::check_apart(name, parameters());
  check(!slots_.empty(), name, ": no parameters given");
  check(any, name, ": none of the ", slots_.size(), " parameters requires a gradient");
}

std::string GroupOptimizer::label(size_t i, const Tensor& p) const {
  core::Text out;
  out << name() << ": parameter " << i << " of shape " << p.shape();
  return out.str();
}

std::vector<Tensor> GroupOptimizer::initial_state(const Tensor& param) const {
  NoGrad no_grad;
  std::vector<Tensor> state;
  for (const State& s : states_) {
    Tensor value = s.initial ? s.initial(param.detach()) : zeros(param.shape(), param.dtype());
    check(value.defined(), name(), ": the initial ", s.name, " is undefined");
    if (elementwise_) check_tensor(name(), "a state", value, param.dtype(), param.shape());
    // `initial` may return the parameter, or one tensor for all parameters.
    state.push_back(value.is_sole_owner() ? value.contiguous() : value.clone());
  }
  return state;
}

void GroupOptimizer::make_state(Slot& slot) const {
  if (slot.dtype || states_.empty() || is_compressed(slot.param.dtype())) return;
  if (slot.owned) slot.state = initial_state(slot.param);
  slot.dtype = slot.param.dtype();
}

void GroupOptimizer::set_lr(double lr) {
  check(lr >= 0 && std::isfinite(lr), name(), ": expected a finite learning rate >= 0, got ", lr);
  lr_ = lr;
}

std::vector<Tensor> GroupOptimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Slot& slot : slots_) all.push_back(slot.param);
  return all;
}

std::vector<Tensor> GroupOptimizer::gradients() const {
  std::set<const Storage*> written;
  for (const Slot& slot : slots_) written.insert(slot.param.impl().storage.get());
  std::vector<Tensor> all;
  for (const Slot& slot : slots_)  // clones a gradient that the step would overwrite
    if (const Tensor g = slot.param.grad(); slot.is_live())
      all.push_back(written.contains(g.impl().storage.get()) ? g.clone() : g.contiguous());
  return all;
}

void GroupOptimizer::check_step() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    // Also checks parameters that another rank updates, so that all ranks throw.
    if (!slot.has_gradient()) continue;
    if (slot.dtype && *slot.dtype != slot.param.dtype())
      fail(label(i, slot.param), ": expected ", *slot.dtype, ", the dtype of its state, got ",
           slot.param.dtype());
    check_gradient(i, slot.param.grad());
  }
}

void GroupOptimizer::apply(double grad_scale) {
  ProfileScope scope(name());
  std::vector<Tensor> gradients = this->gradients();
  for (Slot& slot : slots_)
    if (slot.has_gradient()) make_state(slot);
  std::vector<Update> updates;
  updates.reserve(gradients.size());  // nothing below throws
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.is_live()) continue;
    const ParameterGroup& group = groups_[slot.group];
    begin_in_place(name(), slot.param);
    for (const Tensor& state : slot.state) begin_in_place(name(), state);
    ++slot.step;
    updates.push_back({.param = slot.param,
                       .grad = std::move(gradients[updates.size()]),
                       .state = slot.state,
                       .lr = lr_ * group.lr_scale,
                       .weight_decay = *group.weight_decay,
                       .step = slot.step,
                       .index = i});
  }
  update(updates, grad_scale);
}

void GroupOptimizer::keep_only(const std::set<const void*>& owned) {
  for (Slot& slot : slots_) {
    slot.owned = owned.contains(&slot.param.impl());
    if (!slot.owned) slot.state.clear();
  }
}

NamedTensors GroupOptimizer::named_state(const std::vector<Slot>& slots) const {
  std::vector<int64_t> steps;
  std::vector<std::vector<Tensor>> of_slot;
  for (const Slot& slot : slots) {
    steps.push_back(slot.step);
    of_slot.emplace_back(states_.size());  // undefined
    if (!slot.has_state()) continue;
    of_slot.back() = slot.state.empty() ? initial_state(slot.param) : slot.state;
  }
  NamedTensors state{{"step", from_data(steps, {std::ssize(steps)})}};
  for (size_t k = 0; k < states_.size(); ++k)
    for (size_t i = 0; i < of_slot.size(); ++i)
      if (!is_compressed(slots[i].param.dtype()))
        state.emplace_back(states_[k].name + '.' + std::to_string(i), of_slot[i][k]);
  return state;
}

NamedTensors GroupOptimizer::state_dict() const { return named_state(slots_); }

void GroupOptimizer::load_state_dict(const NamedTensors& state) {
  internal::check_counts(name(), state, "step");
  std::vector<Slot> slots = slots_;  // replaces slots_ after the last check
  for (Slot& slot : slots) make_state(slot);
  NamedTensors own = named_state(slots);
  std::erase_if(own, [](const auto& named) { return !named.second.defined(); });
  load_named(name(), own, state);
  for (size_t i = 0; i < slots.size(); ++i) slots[i].step = own[0].second.data<int64_t>()[i];
  slots_ = std::move(slots);
}

// ---- TensorOptimizer ----

TensorOptimizer::TensorOptimizer(const char* name, ParameterGroups groups, double lr,
                                 double weight_decay, std::vector<State> states, Rule rule)
    : GroupOptimizer(name, std::move(groups), lr, weight_decay, std::move(states)),
      rule_(std::move(rule)) {}

void TensorOptimizer::update(std::span<const Update> updates, double grad_scale) {
  for (const Update& u : updates) {
    Parameter p{.param = u.param,
                .grad = u.grad * grad_scale,  // a copy: parameters may share a gradient
                .state = {u.state.begin(), u.state.end()},
                .lr = u.lr,
                .weight_decay = u.weight_decay,
                .step = u.step};
    rule_(p);
    check(p.state.size() == u.state.size(), name(), ": expected ", u.state.size(),
          " states after the rule, got ", p.state.size());
    NamedTensors own, assigned;
    const auto keep = [&](const std::string& name, const Tensor& to, const Tensor& from) {
      if (from.defined() && &from.impl() == &to.impl()) return;  // written in place, or not at all
      own.emplace_back(name, to);
      assigned.emplace_back(name, from);
    };
    keep("param", u.param, p.param);
    for (size_t k = 0; k < u.state.size(); ++k)
      keep("state " + states()[k].name, u.state[k], p.state[k]);
    load_named(name(), own, assigned);
  }
}

}  // namespace gradus::optim
