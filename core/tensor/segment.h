#pragma once
// How recompute() works. A function's first run records its graph as usual; then the nodes drop what
// they have saved and refer to a Segment instead. When the engine first reaches one of them, the
// segment runs the function again, compares the new nodes with the old ones, moves what the new ones
// have saved to the old ones, and discards the new graph. So pruned passes, hooks and gradients of
// gradients see one graph, as they do without recompute().

#include <unordered_map>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// For its lifetime, lists what this thread records. So do the recordings around it.
class Recording {
 public:
  struct Op {
    std::weak_ptr<Node> node;
    std::vector<std::weak_ptr<TensorImpl>> outputs;
  };
  /// An input of a listed op that no listed op computed.
  struct Outside {
    const char* op;
    size_t input;  // its index
    Shape shape;
    std::weak_ptr<Storage> storage;
    uint64_t version;
  };
  Recording() : outer_(std::exchange(current_, this)) {}
  ~Recording() { current_ = outer_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  static void add(const std::shared_ptr<Node>& node, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& outputs) {
    for (Recording* r = current_; r; r = r->outer_) r->list(node, inputs, outputs);
  }
  std::vector<Op> ops;
  std::vector<Outside> outside;

 private:
  void list(const std::shared_ptr<Node>& node, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& outputs);
  static inline thread_local constinit Recording* current_ = nullptr;
  Recording* const outer_;
  uint64_t first_ = 0;  // the first op's number
};

/// A call of recompute().
class Segment : public std::enable_shared_from_this<Segment> {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  Segment(Function f, std::vector<Tensor> inputs);
  /// Runs the function for the first time.
  std::vector<Tensor> run();
  /// Runs the function again, and gives the nodes what they had saved. Throws Error if the two runs
  /// differ or if a tensor that the first one read has been changed in place.
  void restore();

 private:
  using Nodes = std::vector<std::shared_ptr<Node>>;
  using Counterparts = std::unordered_map<const Node*, std::shared_ptr<Node>>;  // old ones, by new

  void check_unchanged() const;
  std::vector<Tensor> run_again() const;
  /// Returns the old node of each new one. Throws Error unless they are the same ops with the same
  /// inputs.
  Counterparts match(const Nodes& fresh) const;
  /// Moves what the new nodes have saved to their counterparts.
  static void adopt(const Recording& second, const Nodes& fresh, const Counterparts& old_of);

  Function f_;
  const std::vector<Tensor> inputs_;
  std::vector<uint64_t> versions_;  // of the inputs
  const Modes modes_;               // of the first run
  const RandomKey random_;          // before the first run
  std::vector<std::weak_ptr<Node>> nodes_;
  std::vector<Recording::Outside> outside_;
};

}  // namespace gradus::internal
