#include "gradus/optim/optimizer.h"

#include "gradus/core/files/named_tensors.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::optim {

namespace {
// Elements of a chunk of work. Sums are taken by chunks, so results depend on it, but not on
// threads.
constexpr int64_t grain = 16384;

// The chunks of several arrays in one row: which array, and where in it.
class Chunks {
 public:
  void add(int64_t n) { ends_.push_back(count() + (n + grain - 1) / grain); }
  int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  std::pair<size_t, int64_t> operator[](int64_t chunk) const {
    const auto at = std::upper_bound(ends_.begin(), ends_.end(), chunk);
    return {static_cast<size_t>(at - ends_.begin()),
            (chunk - (at == ends_.begin() ? 0 : at[-1])) * grain};
  }

 private:
  std::vector<int64_t> ends_;
};

double norm_of(const std::vector<Tensor>& gradients) {
  Chunks chunks;
  for (const Tensor& g : gradients) chunks.add(g.numel());
  return std::sqrt(parallel_sum<double>(chunks.count(), 1, [&](int64_t c, int64_t) {
    const std::pair<size_t, int64_t> at = chunks[c];
    const Tensor& gradient = gradients[at.first];
    const int64_t n = std::min(grain, gradient.numel() - at.second);
    return dispatch_floating("grad_norm", gradient.dtype(), [&]<class T>(TypeTag<T>) {
      const T* g = gradient.data<T>() + at.second;
      return simd_sum<double>(
          n, [=](int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); });
    });
  }));
}

double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1 || std::isnan(factor) ? factor : 1;
}

void check_max_norm(const char* op, double max_norm) {
  check(max_norm > 0, op, ": expected a maximal gradient norm > 0, got ", max_norm);
}
}  // namespace

ParameterGroups decay_groups(const std::vector<Tensor>& params) {
  ParameterGroup decay, rest{.params = {}, .weight_decay = 0};
  for (const Tensor& p : params) (p.rank() >= 2 ? decay : rest).params.push_back(p);
  return std::vector{decay, rest};
}

double grad_norm(const std::vector<Tensor>& params) {
  NoGrad no_grad;
  std::vector<Tensor> gradients;
  for (const Tensor& p : params)
    if (Tensor g = p.grad(); g.defined()) gradients.push_back(g.contiguous());
  return norm_of(gradients);
}

double clip_grad_norm(const std::vector<Tensor>& params, double max_norm) {
  check_max_norm("clip_grad_norm", max_norm);
  NoGrad no_grad;
  const double norm = grad_norm(params);
  const double factor = clip_factor(norm, max_norm);
  if (factor == 1) return norm;
  // A gradient may be shared (a sum hands one to both its terms), so each is replaced, not scaled.
  std::vector<Tensor> scaled;
  for (const Tensor& p : params)
    scaled.push_back(p.grad().defined() ? p.grad() * factor : Tensor());
  for (size_t i = 0; i < params.size(); ++i) params[i].set_grad(scaled[i]);
  return norm;
}

Optimizer::Optimizer(const char* name, ParameterGroups groups, double lr, double weight_decay,
                     std::vector<std::string> state_names, Update update)
    : name_(name),
      groups_(std::move(groups.list)),
      state_names_(std::move(state_names)),
      update_(std::move(update)) {
  check(std::ssize(state_names_) <= max_state, name_, ": remembers ", state_names_.size(),
        " quantities of a parameter, at most ", max_state, " can be");
  set_lr(lr);
  bool any = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    ParameterGroup& group = groups_[i];
    if (!group.weight_decay) group.weight_decay = weight_decay;
    check(*group.weight_decay >= 0 && std::isfinite(*group.weight_decay) && group.lr_scale >= 0 &&
              std::isfinite(group.lr_scale),
          name_, ": expected weight_decay and lr_scale >= 0, got ", *group.weight_decay, " and ",
          group.lr_scale);
    for (const Tensor& p : group.params) {
      check_parameter(p);
      any = any || p.requires_grad();
      slots_.push_back({.param = p, .state = {}, .step = 0, .group = i});
      if (p.requires_grad()) make_state(slots_.back());
    }
  }
  check(!slots_.empty(), name_, ": no parameters given");
  check(any, name_, ": none of the ", slots_.size(), " parameters requires a gradient");
}

std::string Optimizer::label(size_t i, const Tensor& p) const {
  std::ostringstream out;
  out << name_ << ": parameter " << i << " of shape " << p.shape();
  return out.str();
}

/// As the next of slots_.
void Optimizer::check_parameter(const Tensor& p) const {
  const size_t i = slots_.size();
  check(p.defined(), name_, ": parameter ", i, " is undefined");
  const std::string own = label(i, p);
  check(p.is_leaf() && is_floating(p.dtype()) && p.is_contiguous(), own,
        ": expected a contiguous leaf tensor of float32 or float64");
  for (size_t k = 0; k < i; ++k) {
    const TensorImpl &a = p.impl(), &b = slots_[k].param.impl();
    check(&a != &b, own, " is listed twice, first as parameter ", k);
    const bool apart = a.storage != b.storage || a.offset >= b.offset + b.shape.numel() ||
                       b.offset >= a.offset + a.shape.numel();
    check(apart, own, " shares memory with parameter ", k, " of shape ", b.shape);
  }
}

void Optimizer::make_state(Slot& slot) const {
  for (size_t k = 0; k < state_names_.size(); ++k)
    if (!slot.state[k].defined()) slot.state[k] = zeros(slot.param.shape(), slot.param.dtype());
}

void Optimizer::set_lr(double lr) {
  check(lr >= 0 && std::isfinite(lr), name_, ": expected a finite learning rate >= 0, got ", lr);
  lr_ = lr;
}

void Optimizer::zero_grad() {
  for (const Slot& slot : slots_) slot.param.set_grad({});
}

template <class T>
void Optimizer::update_slot(const Slot& slot, const Tensor& grad, int64_t begin,
                            double grad_scale) const {
  const ParameterGroup& group = groups_[slot.group];
  Chunk<T> chunk{std::min(grain, grad.numel() - begin),
                 slot.param.data<T>() + begin,
                 grad.data<T>() + begin,
                 {},
                 lr_ * group.lr_scale,
                 *group.weight_decay,
                 grad_scale,
                 slot.step};
  for (size_t k = 0; k < state_names_.size(); ++k) chunk.state[k] = slot.state[k].data<T>() + begin;
  if constexpr (std::is_same_v<T, float>)
    update_.of_float(chunk);
  else
    update_.of_double(chunk);
}

double Optimizer::step(const StepOptions& options) {
  check_max_norm(name_, options.max_grad_norm);
  ProfileScope scope(name_);
  NoGrad no_grad;
  std::vector<Slot*> live;
  std::vector<Tensor> gradients;
  for (Slot& slot : slots_) {
    const Tensor g = slot.param.grad();
    if (!g.defined() || !slot.param.requires_grad()) continue;
    if (slot.state[0].defined() && slot.state[0].dtype() != slot.param.dtype())
      fail(label(static_cast<size_t>(&slot - slots_.data()), slot.param),
           ": its dtype has changed to ", slot.param.dtype(), " since its last update");
    gradients.push_back(g.contiguous());
    live.push_back(&slot);
  }
  const bool clip = std::isfinite(options.max_grad_norm);
  const double norm = clip ? norm_of(gradients) : 0;
  const double factor = clip ? clip_factor(norm, options.max_grad_norm) : 1;

  Chunks chunks;
  for (Slot* slot : live) {
    make_state(*slot);
    chunks.add(slot->param.numel());
  }
  for (Slot* slot : live) {  // nothing is refused any more
    begin_in_place(name_, slot->param);
    ++slot->step;
  }
  parallel_for_each(chunks.count(), 1, [&](int64_t c) {
    const std::pair<size_t, int64_t> at = chunks[c];
    dispatch_floating(name_, gradients[at.first].dtype(), [&]<class T>(TypeTag<T>) {
      update_slot<T>(*live[at.first], gradients[at.first], at.second, factor);
    });
  });
  return norm;
}

Tensor Optimizer::steps() const {
  std::vector<int64_t> counts;
  for (const Slot& slot : slots_) counts.push_back(slot.step);
  return from_data(counts, {static_cast<int64_t>(counts.size())});
}

NamedTensors Optimizer::named_state(const Tensor& steps) const {
  NamedTensors state{{"step", steps}};
  for (size_t k = 0; k < state_names_.size(); ++k)
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Tensor& own = slots_[i].state[k];
      const Tensor& p = slots_[i].param;
      state.emplace_back(state_names_[k] + '.' + std::to_string(i),
                         own.defined() ? own : zeros(p.shape(), p.dtype()));
    }
  return state;
}

NamedTensors Optimizer::state_dict() const { return named_state(steps()); }

void Optimizer::load_state_dict(const NamedTensors& state) {
  const Tensor counts = steps();
  for (Slot& slot : slots_) make_state(slot);
  load_named(name_, named_state(counts), state);
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].step = counts.data<int64_t>()[i];
}

}  // namespace gradus::optim
