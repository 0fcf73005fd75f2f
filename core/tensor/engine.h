#pragma once
// The engine that runs one backward pass. Internal: users call Tensor::backward and grad().

#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "gradus/core/internal.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// Returns whether all elements of the float32 and float64 tensors are finite. Ignores other dtypes
/// and undefined tensors.
bool all_finite(const std::vector<Tensor>& tensors);

/// Walks the graph from the outputs passed to seed(), nodes with larger numbers first, and sums the
/// gradients of each node and leaf. backward() accumulates a leaf's sum in its .grad. grad() visits
/// only paths that lead to its inputs, and collects the gradients of the inputs.
///
/// In backward(), gradients of a leaf without hooks are added to its .grad directly. Gradients of a
/// leaf with hooks are summed in a separate tensor. After the last node that uses the leaf has run,
/// and before the next node runs, the hooks are called with the sum, and the result is accumulated
/// in .grad. If one node completes the sums of several leaves, their hooks run in the order in
/// which the leaves received their first gradients.
class Engine {
 public:
  Engine(bool create_graph, bool retain_graph);

  /// Restricts the pass to the nodes on paths from `roots` to `inputs`. The caller then passes each
  /// of `roots` to seed().
  void prune_to(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs);
  /// Adds `output`, with its gradient, to the tensors from which the pass starts. An undefined
  /// gradient means 1 and requires an output of one element.
  void seed(const char* op, const Tensor& output, Tensor gradient);
  void run();
  /// Returns the gradient of an input after a pruned run, or an undefined tensor if no output
  /// depends on the input.
  Tensor result(const Tensor& input);

  // Called by Backward's methods.
  bool create_graph() const { return create_graph_; }
  /// Returns whether the gradient along `edge` is computed in this pass.
  bool needs(const Edge& edge) const;
  std::vector<Tensor>& gradients(const Node& node);
  void add(const Edge& edge, Tensor gradient);
  void check_finite(const Node& node, int input, const Tensor& gradient) const;

  // For rules that call kernels: see reuse.h.
  static Tensor sum_in_place(const Backward& back, int i);
  static Tensor take_input(const Backward& back, int i);
  static Tensor take_grad(const Backward& back, int i);

 private:
  void run_node(Node& node);
  void differentiate_composed(Node& node, Backward& view);
  bool frees_graph() const { return !retain_graph_; }

  /// Returns the tensor in which gradients along `edge` are summed. If there is no sum, the result
  /// is null or points to an undefined tensor.
  Tensor* sum_at(const Edge& edge);
  /// Returns whether the running rule may add to `sum` in place. `sum` holds the gradients summed
  /// so far for input number `input` of the rule's op. Outside anomaly mode, returns true. In
  /// anomaly mode, returns whether `sum` is finite. If it is, the engine checks it again after the
  /// rule has run, unless the rule's incoming gradients were not finite.
  bool may_write(int input, const Tensor& sum);
  void add_to(Tensor& sum, Tensor gradient);
  void accumulate_into(TensorImpl& tensor, Tensor gradient);  // into tensor.grad

  Tensor call_hooks(const std::vector<TensorImpl::Hook>& hooks, Tensor gradient);
  /// Returns whether the leaf's gradient is summed in leaf_sums_ instead of the leaf's .grad.
  bool sums_apart(const TensorImpl& leaf) const { return pruned_ || !leaf.hooks.empty(); }
  /// Completes the leaves whose sums are final because no queued node leads to them.
  void complete_leaves();
  void complete(TensorImpl& leaf);
  /// Returns, for each leaf that queued nodes lead to, the number of the last node that will add to
  /// the leaf's gradient. Since nodes run in descending order, that is the smallest number among
  /// the nodes that use the leaf.
  std::unordered_map<const TensorImpl*, uint64_t> last_consumers() const;

  struct EarlierNode {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->number() < b->number();
    }
  };
  using Leaves = std::vector<std::shared_ptr<TensorImpl>>;

  const bool create_graph_, retain_graph_, anomaly_;
  bool pruned_ = false, incoming_finite_ = true;
  std::vector<int> written_;  // in anomaly mode: indices of the inputs whose sums the rule changed
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, EarlierNode>
      queue_;
  // For each queued node and the running node: one sum of gradients per output.
  std::unordered_map<const Node*, std::vector<Tensor>> pending_;
  std::unordered_map<TensorImpl*, Tensor> leaf_sums_;

  // Leaves whose hooks have not been called yet. arrived_ lists the leaves added since the last
  // complete_leaves(), in the order of their first gradients. waiting_ lists the others, by the
  // number of the last node that uses them.
  Leaves arrived_;
  std::map<uint64_t, Leaves, std::greater<>> waiting_;
  std::optional<std::unordered_map<const TensorImpl*, uint64_t>> last_consumers_;

  std::unordered_set<const void*> targets_;  // the nodes or leaves of prune_to's inputs
  std::unordered_set<const Node*> needed_;   // nodes on a path to a target
  std::unordered_map<const Node*, std::vector<Tensor>> captured_;  // of target nodes: one gradient
                                                                   // per output
};

}  // namespace gradus::internal
