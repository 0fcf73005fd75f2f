#include "gradus/core/tensor/segment.h"

#include <string_view>
#include <unordered_set>

#include "gradus/core/tensor/recompute.h"

namespace gradus {

void Recording::list(const std::shared_ptr<Node>& node, const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& outputs) {
  Op& op = ops.emplace_back(Op{node, {}});
  for (const Tensor& y : outputs) op.outputs.push_back(y.impl_ptr());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const TensorImpl& x = inputs[i].impl();
    if (!x.node || x.node->number() < first_)
      outside.push_back({node->name(), i, x.shape, x.storage, x.storage->version});
  }
}

namespace {
/// Returns the nodes that still exist. A node no longer exists if nothing refers to its outputs.
std::vector<std::shared_ptr<Node>> alive(const Recording& recording) {
  std::vector<std::shared_ptr<Node>> nodes;
  for (const Recording::Op& op : recording.ops)
    if (auto node = op.node.lock()) nodes.push_back(std::move(node));
  return nodes;
}

/// For its lifetime, random ops continue from `state`.
struct RandomScope {
  const RandomKey before = default_generator().state();
  explicit RandomScope(RandomKey state) { default_generator().set_state(state); }
  ~RandomScope() { default_generator().set_state(before); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;
};
}  // namespace

Segment::Segment(Function f, std::vector<Tensor> inputs)
    : f_(std::move(f)),
      inputs_(std::move(inputs)),
      modes_(core::modes()),
      random_(default_generator().state()) {
  for (const Tensor& x : inputs_) versions_.push_back(x.defined() ? x.impl().storage->version : 0);
}

std::vector<Tensor> Segment::run() {
  Recording first;
  std::vector<Tensor> outputs = Function(f_)(inputs_);  // these keep the nodes alive
  outside_ = std::move(first.outside);
  for (const auto& node : alive(first)) {
    nodes_.push_back(node);
    if (node->freed_) continue;  // by a backward pass in f
    node->drop_saved();
    node->segment_ = shared_from_this();
  }
  return outputs;
}

void Segment::restore() {
  check_unchanged();
  const Recording second(true);
  const std::vector<Tensor> outputs = run_again();
  const Nodes fresh = alive(second);
  adopt(second, fresh, match(fresh));
}

void Segment::check_unchanged() const {
  for (const auto& x : outside_) {
    const auto storage = x.storage.lock();  // null if nobody but f's first run held it
    check(!storage || storage->version == x.version, x.op, ": input ", x.input, " of shape ",
          x.shape, " was changed in place before backward, which recomputes from it");
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (const Tensor& x = inputs_[i]; x.defined())
      check(x.impl().storage->version == versions_[i], "recompute: input ", i, " of shape ",
            x.shape(), " was changed in place before backward, which recomputes from it");
}

std::vector<Tensor> Segment::run_again() const {
  const ModeScope grad(&Modes::grad, modes_.grad), eval(&Modes::eval, modes_.eval),
      anomaly(&Modes::anomaly, modes_.anomaly), composed(&Modes::composed, modes_.composed),
      bfloat16(&Modes::bfloat16, modes_.bfloat16), recomputing(&Modes::recomputing, true);
  const RandomScope random(random_);
  return Function(f_)(inputs_);
}

Segment::Counterparts Segment::match(const Nodes& fresh) const {
  constexpr const char* other = "recompute: the function computed something else when run again: ";
  check(fresh.size() == nodes_.size(), other, nodes_.size(), " ops at first, now ", fresh.size(),
        " (was a parameter frozen since, or a tensor stored outside in one run only?)");
  Counterparts old_of;
  for (size_t i = 0; i < fresh.size(); ++i) {
    const auto old = nodes_[i].lock();
    old_of.emplace(fresh[i].get(), old);
    if (!old) continue;  // nobody needs it any more
    const Node &a = *old, &b = *fresh[i];
    check(std::string_view(a.name_) == b.name_, other, "op ", i, " was ", a.name_, ", is now ",
          b.name_);
    check(a.input_meta_ == b.input_meta_ &&
              std::equal(a.outputs_.begin(), a.outputs_.end(), b.outputs_.begin(), b.outputs_.end(),
                         [](const auto& x, const auto& y) {
                           return x.shape == y.shape && x.dtype == y.dtype;
                         }),
          other, "op ", i, ", ", a.name_, ", has other shapes or dtypes");
    for (size_t j = 0; j < a.edges_.size(); ++j) {
      const Edge &from = a.edges_[j], &now = b.edges_[j];
      const auto found = old_of.find(now.node.get());
      const Node* const node = found == old_of.end() ? now.node.get() : found->second.get();
      // A leaf may have been frozen since, or the reverse. Each run makes its own leaves.
      check(node == from.node.get() && now.index == from.index &&
                (!now.leaf || !from.leaf || now.leaf == from.leaf ||
                 (now.leaf->number && from.leaf->number)),
            other, "input ", j, " of op ", i, ", ", a.name_, ", is another tensor");
    }
    check(a.freed_ == b.freed_, other, "op ", i, ", ", a.name_,
          ", was freed by a backward pass inside the function in one run only");
  }
  return old_of;
}

void Segment::adopt(const Recording& second, const Nodes& fresh, const Counterparts& old_of) {
  auto counterpart = [&](const std::shared_ptr<Node>& node) {
    const auto found = old_of.find(node.get());
    return found == old_of.end() ? nullptr : found->second;
  };
  for (const Recording::Op& op : second.ops)
    for (const auto& output : op.outputs)
      if (const auto tensor = output.lock())
        if (auto old = counterpart(tensor->node)) tensor->node = std::move(old);
  std::unordered_set<Segment*> inner;  // calls of recompute() in f
  for (const auto& node : fresh)
    if (node->segment_) inner.insert(node->segment_.get());
  for (Segment* segment : inner)
    for (auto& node : segment->nodes_) node = counterpart(node.lock());
  for (const auto& node : fresh) {
    const auto old = counterpart(node);
    if (!old) continue;
    old->rule_ = std::move(node->rule_);
    old->composed_ = std::move(node->composed_);
    old->saved_inputs_ = std::move(node->saved_inputs_);
    for (size_t i = 0; i < old->saved_inputs_.size(); ++i)  // the first run's leaves
      if (auto& x = old->saved_inputs_[i].tensor; x.defined() && old->edges_[i].leaf)
        x = Tensor(old->edges_[i].leaf);
    old->saved_outputs_ = std::move(node->saved_outputs_);
    old->segment_ = std::move(node->segment_);
    for (size_t i = 0; i < old->outputs_.size(); ++i)
      if (auto& tensor = old->outputs_[i].retains; tensor.expired())
        tensor = node->outputs_[i].retains;
  }
}

std::vector<Tensor> core::recompute_function(Segment::Function f, std::vector<Tensor> inputs) {
  if (!grad_enabled()) return f(inputs);
  return std::make_shared<Segment>(std::move(f), std::move(inputs))->run();
}

}  // namespace gradus
