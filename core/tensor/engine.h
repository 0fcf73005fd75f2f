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

/// Walks the graph from its seeds, nodes with larger numbers first, and sums the gradients given to
/// each node and leaf. backward() accumulates into the leaves' .grad; grad() is pruned to the paths
/// that lead to its inputs and collects their gradients.
///
/// A leaf without hooks sums straight into its .grad. A leaf with hooks sums into a separate
/// tensor; once no node left to run consumes it, and before the next node runs, its hooks are
/// called with the sum, which is then accumulated. Leaves completed by one node follow the order of
/// their first gradients.
class Engine {
 public:
  Engine(bool create_graph, bool retain_graph);

  /// Restricts the pass to what the gradients of `inputs` need.
  void prune_to(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs);
  /// Starts at `output` with its gradient (undefined: 1, for one element).
  void seed(const char* op, const Tensor& output, Tensor gradient);
  void run();
  /// After a pruned run: the gradient of an input, undefined if no output depends on it.
  Tensor result(const Tensor& input);

  // For Backward.
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
  /// Whether a rule may add to `sum` itself; in anomaly mode the engine checks it afterwards.
  bool may_write(int input, const Tensor& sum);
  void add_to(Tensor& sum, Tensor gradient);
  void accumulate_into(TensorImpl& tensor, Tensor gradient);  // its .grad

  Tensor call_hooks(const std::vector<TensorImpl::Hook>& hooks, Tensor gradient);
  /// Whether the leaf's gradient is summed in leaf_sums_ instead of its .grad.
  bool sums_apart(const TensorImpl& leaf) const { return pruned_ || !leaf.hooks.empty(); }
  /// Calls the hooks of the leaves that no node in the queue consumes, directly or through others.
  void complete_leaves();
  void complete(TensorImpl& leaf);
  /// For each leaf that the nodes in the queue lead to, the smallest number among its consumers.
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

  // Leaves whose hooks are still to be called: new ones in the order of their first gradients, then
  // by the number of their last consumer.
  Leaves arrived_;
  std::map<uint64_t, Leaves, std::greater<>> waiting_;
  std::optional<std::unordered_map<const TensorImpl*, uint64_t>> last_consumers_;

  std::unordered_set<const void*> targets_;                        // nodes and leaves of the inputs
  std::unordered_set<const Node*> needed_;                         // nodes on a path to a target
  std::unordered_map<const Node*, std::vector<Tensor>> captured_;  // gradients of target nodes
};

}  // namespace gradus::internal
