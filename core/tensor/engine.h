#pragma once
// The engine of one backward pass. Internal to core: users call Tensor::backward and grad().

#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "gradus/core/ops/pointwise.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::core {

/// Whether no number among them is NaN or infinite; undefined tensors and integers hold none.
bool all_finite(const std::vector<Tensor>& tensors);

/// Walks the graph from its seeds down, nodes with larger numbers first, and sums what each node
/// and leaf is given. A backward() pass sums into the leaves' .grad; a grad() pass is pruned to the
/// paths that lead to its inputs and collects their gradients.
class Engine {
 public:
  Engine(bool create_graph, bool retain_graph);

  /// Only what the inputs' gradients need is computed from here on.
  void prune_to(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs);
  /// Starts at `output` with its gradient (undefined: 1, for one element).
  void seed(const char* op, const Tensor& output, Tensor gradient);
  void run();
  /// After a pruned run: the gradient of one of its inputs, undefined if it was not reached.
  Tensor result(const Tensor& input);

  // What Backward asks for.
  bool create_graph() const { return create_graph_; }
  bool frees_graph() const { return !retain_graph_; }
  /// Whether a rule may add to the gradient summed for an input, which is then looked at after it.
  bool may_write(int input, const Tensor& sum);
  bool wants(const Edge& edge) const;
  std::vector<Tensor>& gradients(const Node& node);
  /// Where the gradient that flows along `edge` is being summed, or null.
  Tensor* sum_at(const Edge& edge);
  void add(const Edge& edge, Tensor gradient);
  void check_finite(const Node& node, int input, const Tensor& gradient) const;

 private:
  void run_node(Node& node);
  void differentiate_composed(Node& node, Backward& view);
  void add_to(Tensor& sum, Tensor gradient);
  void accumulate_into(TensorImpl& tensor, Tensor gradient);  // its .grad
  Tensor call_hooks(const std::vector<TensorImpl::Hook>& hooks, Tensor gradient);

  struct EarlierNode {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->number() < b->number();
    }
  };
  const bool create_graph_, retain_graph_, anomaly_;
  bool pruned_ = false, incoming_finite_ = true;
  std::vector<int> written_;  // in anomaly mode: inputs whose sums the rule has written to
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, EarlierNode>
      queue_;
  // Gradients of nodes' outputs, being summed.
  std::unordered_map<const Node*, std::vector<Tensor>> pending_;
  // The leaves of a pruned pass, and those with hooks: their sums are handed on at the end, in the
  // order in which their first gradients came.
  std::unordered_map<TensorImpl*, Tensor> leaf_sums_;
  std::vector<std::shared_ptr<TensorImpl>> leaves_;
  std::unordered_set<const void*> targets_;                        // nodes and leaves asked for
  std::unordered_set<const Node*> needed_;                         // nodes on a path to a target
  std::unordered_map<const Node*, std::vector<Tensor>> captured_;  // gradients of target nodes
};

}  // namespace gradus::core
