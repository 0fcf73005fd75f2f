#pragma once
// The engine that runs one backward pass. Users call Tensor::backward and grad().

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

/// Whether all elements are finite; undefined and integer tensors count as finite.
bool all_finite(const std::vector<Tensor>& tensors);

/// Walks the graph from the outputs passed to seed(), nodes with larger numbers first, and sums the
/// gradients given to each node and leaf. backward() accumulates the sums in the leaves' .grad;
/// grad() visits only the paths that lead to its inputs and collects their gradients.
///
/// In backward(), gradients of a leaf without hooks are added to its .grad directly. Gradients of a
/// leaf with hooks are summed in a separate tensor. When the last node that consumes the leaf has
/// run, and before the next node runs, the hooks are called with the sum, which is then accumulated
/// in .grad. If one node completes several leaves, their hooks run in the order of the leaves'
/// first gradients.
class Engine {
 public:
  Engine(bool create_graph, bool retain_graph);

  /// Restricts the pass to the nodes between `roots`, the outputs to be seeded, and `inputs`.
  void prune_to(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs);
  /// Adds `output`, with its gradient, to the tensors the pass starts at. An undefined gradient
  /// means 1 and requires an output of one element.
  void seed(const char* op, const Tensor& output, Tensor gradient);
  void run();
  /// After a pruned run, returns the gradient of an input; undefined if no output depends on it.
  Tensor result(const Tensor& input);

  // Called by Backward's methods.
  bool create_graph() const { return create_graph_; }
  /// Whether the gradient along `edge` is computed in this pass.
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

  /// Where the gradient along `edge` is being summed, or null.
  Tensor* sum_at(const Edge& edge);
  /// Whether a rule may add directly to `sum`, in which the gradient of its op's input number
  /// `input` is summed. In anomaly mode it may if `sum` is finite, and the engine checks the
  /// result.
  bool may_write(int input, const Tensor& sum);
  void add_to(Tensor& sum, Tensor gradient);
  void accumulate_into(TensorImpl& tensor, Tensor gradient);  // into tensor.grad

  Tensor call_hooks(const std::vector<TensorImpl::Hook>& hooks, Tensor gradient);
  /// Whether the leaf's gradient is summed in leaf_sums_ instead of its .grad.
  bool sums_apart(const TensorImpl& leaf) const { return pruned_ || !leaf.hooks.empty(); }
  /// Completes the leaves that no node in the queue leads to, since their sums are final.
  void complete_leaves();
  void complete(TensorImpl& leaf);
  /// For each leaf that the nodes in the queue lead to, the number of the node that will be the last
  /// to add to its gradient: the smallest one, since nodes run in descending order.
  std::unordered_map<const TensorImpl*, uint64_t> last_consumers() const;

  struct EarlierNode {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->number() < b->number();
    }
  };
  using Leaves = std::vector<std::shared_ptr<TensorImpl>>;

  const bool create_graph_, retain_graph_, anomaly_;
  bool pruned_ = false, incoming_finite_ = true;
  std::vector<int> written_;  // in anomaly mode: inputs whose sums the rule has written to
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, EarlierNode>
      queue_;
  std::unordered_map<const Node*, std::vector<Tensor>> pending_;  // sums per output of queued nodes
  std::unordered_map<TensorImpl*, Tensor> leaf_sums_;

  // Leaves whose hooks are still to be called. arrived_ holds new ones in the order of their first
  // gradients; waiting_ holds the others, by the number of the last node to consume them.
  Leaves arrived_;
  std::map<uint64_t, Leaves, std::greater<>> waiting_;
  std::optional<std::unordered_map<const TensorImpl*, uint64_t>> last_consumers_;

  std::unordered_set<const void*> targets_;  // the nodes, or leaves, of prune_to's inputs
  std::unordered_set<const Node*> needed_;   // nodes on a path to a target
  std::unordered_map<const Node*, std::vector<Tensor>> captured_;  // targets' output gradients
};

}  // namespace gradus::internal
