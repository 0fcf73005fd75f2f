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

/// Walks the graph from the outputs passed to seed(), and sums the gradients of each node and leaf.
/// Nodes run in reverse order of recording. Tensor::backward() adds the sum of each leaf to its
/// .grad. grad() visits only the paths that lead to its argument `inputs`, and returns the
/// gradients of these tensors.
///
/// In Tensor::backward(), gradients of a leaf without hooks are added to its .grad directly.
/// Gradients of a leaf with hooks are summed in a separate tensor. After the last node that uses
/// the leaf has run, the engine calls the hooks with the sum and adds their result to .grad. If
/// several leaves have the same last node, their hooks run in the order in which the leaves
/// received their first gradients.
class Engine {
 public:
  Engine(bool create_graph, bool retain_graph);

  /// Restricts the pass to the nodes on paths from `roots` to `inputs`. The caller then passes each
  /// of `roots` to seed().
  void prune_to(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs);
  /// Adds `output`, with its gradient, to the tensors from which the pass starts. An undefined
  /// gradient means 1; `output` must then have one element. Throws Error if `output` does not
  /// require grad, or if `gradient` and `output` differ in shape or dtype. The message begins with
  /// `op`.
  void seed(const char* op, const Tensor& output, Tensor gradient);
  void run();
  /// Returns the gradient of `input`, or an undefined tensor if no output depends on `input`.
  /// Requires that run() has returned and that `input` was one of the inputs passed to prune_to().
  Tensor result(const Tensor& input);

  // The members up to check_finite() implement the methods of Backward.
  bool create_graph() const { return create_graph_; }
  /// Returns whether this pass computes the gradient that flows along `edge`.
  bool needs(const Edge& edge) const;
  std::vector<Tensor>& gradients(const Node& node);
  void add(const Edge& edge, Tensor gradient);
  void check_finite(const Node& node, int input, const Tensor& gradient) const;

  // These members implement the functions of the same names in reuse.h.
  static Tensor sum_in_place(const Backward& back, int i);
  static Tensor take_input(const Backward& back, int i);
  static Tensor take_grad(const Backward& back, int i);

 private:
  void run_node(Node& node);
  void differentiate_composed(Node& node, Backward& view);
  bool frees_graph() const { return !retain_graph_; }

  /// Returns a pointer to the sum of the gradients for the destination of `edge`. Until the first
  /// gradient arrives, the pointer is null or points to an undefined tensor.
  Tensor* sum_at(const Edge& edge);
  /// Returns whether the running backward rule may add in place to `sum`, the sum of the gradients
  /// of input number `input`. Always true outside AnomalyMode. In AnomalyMode, true if all elements
  /// of `sum` are finite; the engine then checks `sum` again after the rule has run, unless a
  /// gradient of the op's outputs is not finite.
  bool may_write(int input, const Tensor& sum);
  void add_to(Tensor& sum, Tensor gradient);
  void accumulate_into(TensorImpl& tensor, Tensor gradient);  // into tensor.grad

  Tensor call_hooks(const std::vector<TensorImpl::Hook>& hooks, Tensor gradient);
  /// Returns whether the leaf's gradient is summed in leaf_sums_ instead of the leaf's .grad.
  bool sums_apart(const TensorImpl& leaf) const { return pruned_ || !leaf.hooks.empty(); }
  /// Calls complete() for each leaf with hooks whose gradient is complete, because no queued node
  /// leads to the leaf any more. complete() calls the leaf's hooks. In Tensor::backward(), but not
  /// in grad(), complete() then adds the hooks' result to the leaf's .grad.
  void complete_leaves();
  void complete(TensorImpl& leaf);
  /// Returns, for each leaf that queued nodes lead to, the number of the last node that will add to
  /// the leaf's gradient. Nodes run in descending order of their numbers, so the last node is the
  /// one with the smallest number among the nodes that use the leaf.
  std::unordered_map<const TensorImpl*, uint64_t> last_consumers() const;

  struct EarlierNode {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->number() < b->number();
    }
  };
  using Leaves = std::vector<std::shared_ptr<TensorImpl>>;

  const bool create_graph_, retain_graph_, anomaly_;
  bool pruned_ = false, incoming_finite_ = true;
  // In AnomalyMode: indices of inputs whose gradients the running backward rule changes in place.
  std::vector<int> written_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, EarlierNode>
      queue_;
  // For each queued node and the running node: the summed gradient of each output of the node.
  std::unordered_map<const Node*, std::vector<Tensor>> pending_;
  std::unordered_map<TensorImpl*, Tensor> leaf_sums_;

  // Leaves that have received gradients, but whose hooks have not been called yet. arrived_ lists
  // the leaves whose first gradient arrived after the last call of complete_leaves(), in order of
  // arrival. waiting_ contains the remaining leaves: it maps a node's number to the leaves whose
  // gradients are complete after this node has run.
  Leaves arrived_;
  std::map<uint64_t, Leaves, std::greater<>> waiting_;
  std::optional<std::unordered_map<const TensorImpl*, uint64_t>> last_consumers_;

  // For each input passed to prune_to(): its TensorImpl if it is a leaf, otherwise its node.
  std::unordered_set<const void*> targets_;
  std::unordered_set<const Node*> needed_;  // the nodes from which a path leads to targets_
  // The gradients of the outputs of each node in targets_.
  std::unordered_map<const Node*, std::vector<Tensor>> captured_;
};

}  // namespace gradus::internal
