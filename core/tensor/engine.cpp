#include "gradus/core/tensor/engine.h"

#include "gradus/core/tensor/segment.h"

namespace gradus {

// ---- Backward: a rule's view of its op ----

size_t Backward::input_index(int i) const {
  check(i >= 0 && i < std::ssize(node_.edges_), node_.name(), ": backward: no input ", i, " of ",
        node_.edges_.size());
  return static_cast<size_t>(i);
}

size_t Backward::output_index(int i) const {
  check(i >= 0 && i < std::ssize(node_.outputs_), node_.name(), ": backward: no output ", i, " of ",
        node_.outputs_.size());
  return static_cast<size_t>(i);
}

Tensor Backward::input(int i) const {
  return node_.saved(node_.saved_inputs_, "input", input_index(i));
}

Tensor Backward::output(int index) const {
  const Tensor& saved = node_.saved(node_.saved_outputs_, "output", output_index(index));
  Tensor y = saved.detach();
  y.impl().node = node_.shared_from_this();
  y.impl().output_index = index;
  return y;
}

Tensor Backward::grad(int index) const {
  const size_t i = output_index(index);
  const Tensor& g = engine_.gradients(node_)[i];
  const auto& meta = node_.outputs_[i];
  return g.defined() ? g : zeros(meta.shape, meta.dtype);
}

bool Backward::has_grad(int i) const { return engine_.gradients(node_)[output_index(i)].defined(); }

bool Backward::needs(int i) const { return engine_.needs(node_.edges_[input_index(i)]); }
const Shape& Backward::input_shape(int i) const { return node_.input_meta_[input_index(i)].first; }
bool Backward::create_graph() const { return engine_.create_graph(); }

void Backward::give(int index, Tensor gradient) {
  const size_t i = input_index(index);
  if (!needs(index)) return;
  const auto& [shape, dtype] = node_.input_meta_[i];
  check(gradient.defined() && gradient.shape() == shape && gradient.dtype() == dtype, node_.name(),
        ": backward: expected a gradient of ", dtype, " ", shape, " for input ", index, ", got ",
        gradient.defined() ? name_of(gradient.dtype()) : "nothing", " ",
        gradient.defined() ? gradient.shape() : Shape{});
  engine_.check_finite(node_, index, gradient);
  engine_.add(node_.edges_[i], std::move(gradient));
}

Engine::Engine(bool create_graph, bool retain_graph)
    : create_graph_(create_graph), retain_graph_(retain_graph), anomaly_(core::modes().anomaly) {}

// ---- which gradients are computed ----

bool Engine::needs(const Edge& edge) const {
  // A leaf may have been frozen since the forward pass.
  if (!pruned_)
    return edge && (!edge.leaf || edge.leaf->requires_grad) && !Recording::repeats_outside(edge);
  if (edge.leaf) return targets_.contains(edge.leaf.get());
  return edge.node && (targets_.contains(edge.node.get()) || needed_.contains(edge.node.get()));
}

void Engine::prune_to(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs) {
  pruned_ = true;
  auto oldest = std::numeric_limits<uint64_t>::max();  // no smaller number leads to a target
  for (const Tensor& x : inputs) {
    const Edge edge = edge_of(x);
    targets_.insert(edge.leaf ? static_cast<void*>(edge.leaf.get()) : edge.node.get());
    oldest = std::min(oldest, edge.leaf ? 0 : edge.node->number_);
  }
  std::vector<Node*> order;
  std::unordered_set<Node*> seen;
  auto visit = [&](Node* node) {
    if (node && node->number_ >= oldest && seen.insert(node).second) order.push_back(node);
  };
  for (const Tensor& root : roots) visit(root.impl().node.get());
  for (size_t i = 0; i < order.size(); ++i)
    for (const Edge& edge : order[i]->edges_) visit(edge.node.get());
  std::sort(order.begin(), order.end(), [](Node* a, Node* b) { return a->number_ < b->number_; });
  auto is_needed = [this](const Edge& edge) { return needs(edge); };
  for (Node* node : order)  // inputs before their consumers
    if (std::any_of(node->edges_.begin(), node->edges_.end(), is_needed)) needed_.insert(node);
}

// ---- sums of gradients ----

std::vector<Tensor>& Engine::gradients(const Node& node) { return pending_.at(&node); }

Tensor* Engine::sum_at(const Edge& edge) {
  if (edge.leaf) {
    if (!sums_apart(*edge.leaf)) return &edge.leaf->grad;
    const auto found = leaf_sums_.find(edge.leaf.get());
    return found == leaf_sums_.end() ? nullptr : &found->second;
  }
  const auto found = pending_.find(edge.node.get());
  return found == pending_.end() ? nullptr : &found->second[static_cast<size_t>(edge.index)];
}

void Engine::add(const Edge& edge, Tensor gradient) {
  if (edge.leaf) {
    check(gradient.dtype() == edge.leaf->dtype, "backward: a leaf of shape ", edge.leaf->shape,
          " became ", edge.leaf->dtype, " after the forward pass, which gives it a gradient of ",
          gradient.dtype());
    if (!sums_apart(*edge.leaf)) return accumulate_into(*edge.leaf, std::move(gradient));
    const auto [at, fresh] = leaf_sums_.try_emplace(edge.leaf.get());
    if (fresh && !edge.leaf->hooks.empty()) arrived_.push_back(edge.leaf);
    add_to(at->second, std::move(gradient));
    return;
  }
  auto [at, fresh] = pending_.try_emplace(edge.node.get());
  if (fresh) {
    at->second.resize(edge.node->outputs_.size());
    queue_.push(edge.node);
  }
  add_to(at->second[static_cast<size_t>(edge.index)], std::move(gradient));
}

void Engine::add_to(Tensor& sum, Tensor gradient) {
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (!create_graph_ && sum.is_sole_owner() && sum.is_contiguous()) {
    sum.add_(gradient);
  } else if (!create_graph_ && gradient.is_sole_owner() && gradient.is_contiguous()) {
    gradient.add_(sum);
    sum = std::move(gradient);
  } else {
    sum = sum + gradient;
  }
}

void Engine::accumulate_into(TensorImpl& tensor, Tensor gradient) {
  if (gradient.requires_grad()) gradient = gradient.detach();  // a hook may return one with a graph
  if (!tensor.grad.defined() && !(gradient.is_sole_owner() && gradient.is_contiguous()))
    gradient = gradient.clone();  // .grad shares no storage
  add_to(tensor.grad, std::move(gradient));
}

// ---- hooks ----

Tensor Engine::call_hooks(const std::vector<TensorImpl::Hook>& hooks, Tensor gradient) {
  const auto calls = hooks;  // a hook may remove itself
  for (const auto& hook : calls) {
    // The hook may write in place. That must change no other tensor, and it must work if elements
    // share memory.
    if (!(gradient.is_sole_owner() && gradient.is_contiguous())) gradient = gradient.clone();
    Tensor replaced = (*hook.call)(gradient);
    if (!replaced.defined()) continue;
    check_tensor("hook", "a gradient", replaced, gradient.dtype(), gradient.shape());
    gradient = std::move(replaced);
  }
  // With create_graph, grad() may return this gradient, which must share no memory with a tensor
  // that a hook kept or returned.
  return create_graph_ ? gradient.clone() : gradient;
}

std::unordered_map<const TensorImpl*, uint64_t> Engine::last_consumers() const {
  std::unordered_map<const TensorImpl*, uint64_t> last;
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> seen;
  auto visit = [&](const Node* node) {
    if (node && (!pruned_ || needed_.contains(node)) && seen.insert(node).second)
      nodes.push_back(node);
  };
  for (const auto& [node, sums] : pending_) visit(node);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Edge& edge : nodes[i]->edges_) {
      visit(edge.node.get());
      if (!edge.leaf) continue;
      uint64_t& number = last.try_emplace(edge.leaf.get(), nodes[i]->number_).first->second;
      number = std::min(number, nodes[i]->number_);
    }
  return last;
}

void Engine::complete_leaves() {
  if (arrived_.empty() && waiting_.empty()) return;
  if (!last_consumers_) last_consumers_ = last_consumers();
  constexpr auto consumed_already = std::numeric_limits<uint64_t>::max();
  for (const auto& leaf : std::exchange(arrived_, {})) {
    const auto found = last_consumers_->find(leaf.get());
    waiting_[found == last_consumers_->end() ? consumed_already : found->second].push_back(leaf);
  }
  // Nodes run in descending order of their numbers.
  while (!waiting_.empty() && (queue_.empty() || waiting_.begin()->first > queue_.top()->number_)) {
    const Leaves leaves = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    for (const auto& leaf : leaves) complete(*leaf);
  }
}

void Engine::complete(TensorImpl& leaf) {
  Tensor& sum = leaf_sums_.at(&leaf);
  sum = call_hooks(leaf.hooks, std::move(sum));
  if (pruned_) return;
  accumulate_into(leaf, std::move(sum));
  leaf_sums_.erase(&leaf);
}

// ---- the walk ----

void Engine::run() {
  const GradMode mode(create_graph_);
  // Anomaly mode checks a rule's results, not each op inside it.
  const core::ModeScope ops_of_rules(&core::Modes::anomaly, false);
  for (complete_leaves(); !queue_.empty(); complete_leaves()) {
    const std::shared_ptr<Node> node = queue_.top();
    queue_.pop();
    run_node(*node);
    pending_.erase(node.get());
  }
}

void Engine::run_node(Node& node) {
  auto& gradients = pending_.at(&node);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && !node.outputs_[i].hooks.empty())
      gradients[i] = call_hooks(node.outputs_[i].hooks, std::move(gradients[i]));
  if (targets_.contains(&node)) captured_[&node] = gradients;
  if (pruned_ && !needed_.contains(&node)) return;
  check(!node.freed_, node.name_,
        ": backward ran a second time: the first pass freed the graph; pass retain_graph to it");
  // A segment may lie in another one, which computes only what that one kept.
  while (node.segment_) std::shared_ptr(node.segment_)->restore();
  for (size_t i = 0; i < gradients.size() && !pruned_; ++i)
    if (const auto output = node.outputs_[i].retains.lock(); output && gradients[i].defined())
      accumulate_into(*output, gradients[i]);
  const core::ModeScope products(&core::Modes::bfloat16, node.bfloat16_);
  const ProfileScope scope(node.name_, true);
  incoming_finite_ = !anomaly_ || all_finite(gradients);
  Backward view(*this, node);
  if (create_graph_ && node.composed_)
    differentiate_composed(node, view);
  else
    node.rule_(view);
  for (const int i : std::exchange(written_, {}))
    check_finite(node, i, *sum_at(node.edges_[static_cast<size_t>(i)]));
  if (frees_graph()) {
    node.drop_saved();
    node.freed_ = true;  // the edges stay, so that a later pass reaches this node and throws
  }
}

void Engine::seed(const char* op, const Tensor& output, Tensor gradient) {
  check(output.defined() && output.requires_grad(), op, ": the output does not require grad");
  if (!gradient.defined()) {
    check(output.numel() == 1, op, ": an output of shape ", output.shape(),
          " needs an explicit gradient; only a one-element output defaults to 1");
    gradient = ones_like(output);
  }
  check_tensor(op, "an output gradient", gradient, output.dtype(), output.shape());
  const GradMode mode(create_graph_);
  if (const Edge edge = edge_of(output); pruned_ || needs(edge)) add(edge, std::move(gradient));
}

Tensor Engine::result(const Tensor& input) {
  const Edge edge = edge_of(input);
  if (edge.leaf) return sum_at(edge) ? *sum_at(edge) : Tensor();
  const auto found = captured_.find(edge.node.get());
  return found == captured_.end() ? Tensor() : found->second[static_cast<size_t>(edge.index)];
}

void Tensor::backward(const Tensor& gradient, bool retain_graph) const {
  Engine engine(false, retain_graph);
  engine.seed("backward", *this, gradient);
  engine.run();
}

namespace {
/// As grad(), but the results may share memory with each other and with the output gradients.
std::vector<Tensor> shared_grad(const std::vector<Tensor>& outputs,
                                const std::vector<Tensor>& inputs, const GradOptions& options) {
  check(options.grad_outputs.empty() || options.grad_outputs.size() == outputs.size(),
        "grad: expected ", outputs.size(), " output gradients, got ", options.grad_outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    check(inputs[i].defined() && inputs[i].requires_grad(), "grad: input ", i,
          " does not require grad");
  for (size_t i = 0; i < outputs.size(); ++i)
    check(outputs[i].defined() && outputs[i].requires_grad(), "grad: output ", i,
          " does not require grad");
  Engine engine(options.create_graph, options.retain_graph || options.create_graph);
  engine.prune_to(outputs, inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    engine.seed("grad", outputs[i],
                options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i]);
  engine.run();
  std::vector<Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.push_back(engine.result(inputs[i]));
    check(results[i].defined() || options.allow_unused, "grad: no output depends on input ", i,
          " of shape ", inputs[i].shape());
  }
  return results;
}
}  // namespace

void Engine::differentiate_composed(Node& node, Backward& view) {
  std::vector<Tensor> inputs(node.edges_.size()), needed, outputs, output_grads;
  std::vector<int> wanted_at;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!node.saved_inputs_[i].tensor.defined()) continue;
    const Tensor x = view.input(static_cast<int>(i));
    inputs[i] = x.detach();
    record("alias", {inputs[i]}, {x}, saves_nothing, [](Backward& b) { b.give(0, b.grad()); });
    if (!view.needs(static_cast<int>(i))) continue;
    needed.push_back(inputs[i]);
    wanted_at.push_back(static_cast<int>(i));
  }
  const std::vector<Tensor> composed = node.composed_(inputs);
  check(composed.size() == node.outputs_.size(), node.name_, ": expected ", node.outputs_.size(),
        " outputs of the composed form, got ", composed.size());
  for (size_t i = 0; i < composed.size(); ++i)
    if (view.has_grad(static_cast<int>(i)) && composed[i].requires_grad()) {
      outputs.push_back(composed[i]);
      output_grads.push_back(view.grad(static_cast<int>(i)));
    }
  const std::vector<Tensor> given = shared_grad(
      outputs, needed, {.grad_outputs = output_grads, .create_graph = true, .allow_unused = true});
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].defined()) view.give(wanted_at[i], given[i]);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  std::vector<Tensor> results = shared_grad(outputs, inputs, options);
  const GradMode mode(options.create_graph);
  std::unordered_set<const Storage*> taken;
  for (const Tensor& dy : options.grad_outputs)
    if (dy.defined()) taken.insert(dy.impl().storage.get());
  for (Tensor& x : results) {
    if (!x.defined()) continue;
    const bool own =
        options.create_graph ? !taken.contains(x.impl().storage.get()) : x.is_sole_owner();
    if (!(own && x.is_contiguous())) x = x.clone();
    taken.insert(x.impl().storage.get());
  }
  return results;
}

}  // namespace gradus
