#pragma once
// The implementation of recompute(). The first run of the function records its graph as usual. Then
// the nodes of this graph drop their saved tensors and refer to a Segment instead. When the engine
// first reaches one of these nodes, the segment runs the function again and compares the new nodes
// with the old ones. It moves the saved tensors of the new nodes to the old nodes and discards the
// new graph. Hooks, grad() and gradients of gradients therefore see a single graph, as they do
// without recompute().

#include <atomic>
#include <unordered_map>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// A scope object for one run of a function: while it exists, it collects each op that its thread
/// adds to the graph. If the thread has several Recordings, each collects the op.
class Recording {
 public:
  struct Op {
    std::weak_ptr<Node> node;
    std::vector<std::weak_ptr<TensorImpl>> outputs;
  };
  /// An input of an op in `ops` that no op in `ops` computed: a leaf, or an earlier op's output.
  struct Outside {
    const char* op;
    size_t input;  // index among the op's inputs
    Shape shape;
    std::weak_ptr<Storage> storage;
    uint64_t version;
  };
  explicit Recording(bool repeats = false)
      : repeats_(repeats), outer_(std::exchange(current_, this)) {}
  ~Recording() { current_ = outer_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  static void add(const std::shared_ptr<Node>& node, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& outputs) {
    for (Recording* r = current_; r; r = r->outer_) r->list(node, inputs, outputs);
  }
  /// Returns whether this thread runs a function of recompute() for the second time and `edge`
  /// leads to a tensor created before this run. The first run has already changed the hooks and
  /// .grad of such a tensor. `edge` must not be empty.
  static bool repeats_outside(const Edge& edge) {
    const uint64_t number = edge.leaf ? edge.leaf->number : edge.node->number();
    for (const Recording* r = current_; r; r = r->outer_)
      if (r->repeats_ && number < r->first_) return true;
    return false;
  }
  /// Returns a larger number at each call, for Node::number() and for ids of hooks.
  static uint64_t next_number() { return ++last_number_; }
  /// Returns the TensorImpl::number of a new leaf: 0 if this thread has no Recording.
  static uint64_t leaf_number() { return current_ ? next_number() : 0; }
  std::vector<Op> ops;
  std::vector<Outside> outside;

 private:
  void list(const std::shared_ptr<Node>& node, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& outputs);
  static inline thread_local constinit Recording* current_ = nullptr;
  static inline std::atomic<uint64_t> last_number_ = 0;
  const bool repeats_;  // the function has run before
  Recording* const outer_;
  const uint64_t first_ = next_number();  // nodes and leaves of this run have larger numbers
};

/// One call of recompute(): the function, its inputs and the nodes of its first run.
class Segment : public std::enable_shared_from_this<Segment> {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  Segment(Function f, std::vector<Tensor> inputs);
  /// Runs the function for the first time and returns its outputs.
  std::vector<Tensor> run();
  /// Runs the function again and restores the saved tensors of the first run's nodes. Throws Error
  /// if the two runs record different ops, or the same ops with different shapes, dtypes or inputs
  /// that require grad. Also throws Error if a tensor that the function reads has been changed in
  /// place since the first run.
  void restore();

 private:
  using Nodes = std::vector<std::shared_ptr<Node>>;
  using Counterparts = std::unordered_map<const Node*, std::shared_ptr<Node>>;  // new node to old

  void check_unchanged() const;
  std::vector<Tensor> run_again() const;
  /// Returns a map from each node of the second run, listed in `fresh`, to the corresponding node
  /// of the first run, or to null if the first run's node no longer exists. Throws Error if the two
  /// runs recorded different ops, if an op's shapes, dtypes or inputs that require grad differ, or
  /// if a backward pass inside the function freed an op in one run only.
  Counterparts match(const Nodes& fresh) const;
  /// Moves the backward rules and saved tensors from the nodes of the second run, listed in
  /// `fresh`, to the corresponding nodes of the first run. `old_of` is the result of match(). If
  /// the function calls retain_grad() on a tensor, and the tensor of the first run no longer
  /// exists, backward() stores the gradient in the tensor of the second run.
  static void adopt(const Recording& second, const Nodes& fresh, const Counterparts& old_of);

  const Function f_;  // each run calls a copy of it, so that f_ itself never changes
  const std::vector<Tensor> inputs_;
  std::vector<uint64_t> versions_;  // versions of the inputs' storages before the first run
  const Modes modes_;               // modes of the first run
  const RandomKey random_;          // random state before the first run
  std::vector<std::weak_ptr<Node>> nodes_;
  std::vector<Recording::Outside> outside_;
};

}  // namespace gradus::internal
