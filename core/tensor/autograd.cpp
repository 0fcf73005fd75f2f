#include "gradus/core/tensor/autograd.h"

#include "gradus/core/internal.h"
#include "gradus/core/tensor/engine.h"
#include "gradus/core/tensor/segment.h"

namespace gradus {

// ---- recording ----

Edge core::edge_of(const Tensor& x) {
  const TensorImpl& t = x.impl();
  if (t.node) return {t.node, nullptr, t.output_index};
  if (t.requires_grad) return {nullptr, x.impl_ptr(), 0};
  return {};
}

Tensor core::view_of(const Tensor& x, const Shape& shape, const Shape& strides, int64_t shift) {
  auto impl = std::make_shared<TensorImpl>();
  const TensorImpl& t = x.impl();
  impl->storage = t.storage;
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = t.offset + shift;
  impl->dtype = t.dtype;
  if (t.scales.defined() && shift == 0 && shape == t.shape && strides == t.strides)
    impl->scales = t.scales;
  return Tensor(std::move(impl));
}

namespace {
bool bit(uint32_t mask, size_t i) { return (mask >> std::min<size_t>(i, 31)) & 1u; }

/// Throws Error if finite inputs gave an output that is not finite (AnomalyMode).
void check_outputs(const char* name, const std::vector<Tensor>& outputs,
                   const std::vector<Tensor>& inputs) {
  if (!all_finite(inputs)) return;
  for (const Tensor& y : outputs)
    check(all_finite({y}), "anomaly: ", name, " produced a NaN or an infinity of shape ", y.shape(),
          " from finite inputs");
}
}  // namespace

bool Recorder::should_record(const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor& x : inputs)
    if (x.defined() && x.requires_grad()) return true;
  return false;
}

void Recorder::record(const char* name, const std::vector<Tensor>& outputs,
                      const std::vector<Tensor>& inputs, Saves saves, Rule rule,
                      Composed composed) {
  for (size_t i = 0; i < outputs.size(); ++i)
    check(!outputs[i].requires_grad(), name, ": record: output ", i, " is part of a graph already");
  if (core::modes().anomaly && !saves.allows_infinite) check_outputs(name, outputs, inputs);
  const std::shared_ptr<Node> node(new Node, &Node::destroy);
  node->name_ = name;
  node->number_ = Recording::next_number();
  node->rule_ = std::move(rule);
  node->composed_ = std::move(composed);
  node->edges_.resize(inputs.size());
  node->input_meta_.resize(inputs.size());
  if (saves.inputs) node->saved_inputs_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    node->edges_[i] = edge_of(inputs[i]);
    node->input_meta_[i] = {inputs[i].shape(), inputs[i].dtype()};
    if (bit(saves.inputs, i))
      node->saved_inputs_[i] = {inputs[i], inputs[i].impl().storage->version};
  }
  if (saves.outputs) node->saved_outputs_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorImpl& t = outputs[i].impl();
    check(!t.node, name, ": record: output ", i, " is listed twice");
    node->outputs_.push_back({t.shape, t.dtype, {}, {}});
    if (bit(saves.outputs, i)) node->saved_outputs_[i] = {outputs[i].detach(), t.storage->version};
    if (!is_floating(t.dtype)) continue;
    t.node = node;
    t.output_index = static_cast<int>(i);
  }
  Recording::add(node, inputs, outputs);
}

void Node::drop_saved() {
  rule_ = nullptr;
  composed_ = nullptr;
  saved_inputs_ = {};
  saved_outputs_ = {};
}

/// Destroys a chain of nodes in a loop instead of by recursion: a node released while another is
/// being destroyed is linked into this thread's list. Allocates nothing: memory may have run out.
void Node::destroy(Node* node) {
  static thread_local constinit Node* waiting = nullptr;
  static thread_local constinit bool looping = false;
  node->next_waiting_ = std::exchange(waiting, node);
  if (std::exchange(looping, true)) return;
  while (Node* last = waiting) {
    waiting = last->next_waiting_;
    delete last;
  }
  looping = false;
}

const Tensor& Node::saved(const std::vector<Saved>& list, const char* what, size_t i) const {
  check(i < list.size() && list[i].tensor.defined(), name_, ": backward: ", what, " ", i,
        " was not saved");
  const Tensor& x = list[i].tensor;
  check(x.impl().storage->version == list[i].version, name_, ": ", what, " ", i, " of shape ",
        x.shape(), " was changed in place after it was saved for backward");
  return x;
}

// ---- methods of Tensor ----

bool Tensor::requires_grad() const { return impl().requires_grad || impl().node; }
bool Tensor::is_leaf() const { return !impl().node; }
Tensor Tensor::grad() const { return impl().grad; }
Tensor Tensor::detach() const { return view_of(*this, shape(), strides()); }

Tensor Tensor::requires_grad_(bool on) const {
  check(is_leaf(), "requires_grad_: the tensor was computed by ",
        is_leaf() ? "" : impl().node->name(), "; expected a leaf");
  check(!on || is_floating(dtype()), "requires_grad_: expected float32 or float64, got ", dtype());
  if (on && !requires_grad()) impl().number = Recording::leaf_number();
  impl().requires_grad = on;
  return *this;
}

void Tensor::set_grad(Tensor grad) const {
  if (grad.defined()) {
    check_tensor("set_grad", "a gradient", grad, dtype(), shape());
    if (grad.requires_grad()) grad = grad.detach();
  }
  impl().grad = std::move(grad);
}

Tensor Tensor::retain_grad() const {
  check(requires_grad(), "retain_grad: the tensor does not require grad");
  if (!is_leaf()) impl().node->output(impl().output_index).retains = impl_;
  return *this;
}

namespace {
using HookFunction = std::function<Tensor(const Tensor&)>;

/// Whether copying `hook` added an owner of `tensor`, as it does if the hook captures a handle.
bool copy_adds_owner(const HookFunction& hook, const std::shared_ptr<TensorImpl>& tensor) {
  const long before = tensor.use_count();
  const HookFunction copy = hook;
  return tensor.use_count() > before;
}

/// Whether `hook` captures `tensor`. A std::function cannot be inspected, only copied. Another
/// thread may copy a handle during a trial, so three trials must agree.
bool captures(const HookFunction& hook, const std::shared_ptr<TensorImpl>& tensor) {
  return copy_adds_owner(hook, tensor) && copy_adds_owner(hook, tensor) &&
         copy_adds_owner(hook, tensor);
}
}  // namespace

int64_t Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check(requires_grad(), "register_hook: the tensor does not require grad");
  check(static_cast<bool>(hook), "register_hook: the hook is empty");
  check(!captures(hook, impl_),
        "register_hook: the hook holds the tensor it is registered on, so neither would ever be "
        "freed; use the hook's argument, or capture detach()");
  const auto id = static_cast<int64_t>(Recording::next_number());
  if (Recording::repeats_outside(edge_of(*this))) return id;  // the first run's hook is there
  auto& hooks = impl().node ? impl().node->output(impl().output_index).hooks : impl().hooks;
  hooks.push_back({id, std::make_shared<HookFunction>(std::move(hook))});
  return id;
}

void Tensor::remove_hook(int64_t id) const {
  auto& hooks = impl().node ? impl().node->output(impl().output_index).hooks : impl().hooks;
  std::erase_if(hooks, [id](const TensorImpl::Hook& hook) { return hook.id == id; });
}

void core::begin_in_place(const char* op, const Tensor& x) {
  check(!(grad_enabled() && x.requires_grad()), op,
        ": in place on a tensor that requires grad while gradients are recorded; open a NoGrad "
        "scope or use the op that returns a new tensor");
  check(!is_expanded(x), op,
        ": in place on an expanded tensor, whose elements share memory: ", x.shape());
  ++x.impl().storage->version;
}

}  // namespace gradus
