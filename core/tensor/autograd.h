#pragma once
// Autograd: the graph that ops record, and the interface of backward rules.
//
// An op computes its outputs, then calls record(name, outputs, inputs, saves, rule). If
// Backward::create_graph() is true, the pass records the ops that the rule calls, so gradients of
// gradients need no more code. The rule must then consist of differentiable ops on tensors;
// otherwise it may also call kernels. (For fused ops, see record_fused().) Nodes are numbered in
// the order of recording, so an op's node has a larger number than the nodes of its inputs, and
// backward runs nodes in descending order.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

namespace internal {
class Engine;
class Segment;
}  // namespace internal

namespace core {

class Node;

/// Where a gradient flows: to a node, as the gradient of its op's output `index`; to a leaf; or
/// nowhere (node and leaf are null).
struct Edge {
  std::shared_ptr<Node> node;        ///< null unless the gradient flows to a node
  std::shared_ptr<TensorImpl> leaf;  ///< null unless the gradient flows to a leaf
  int index = 0;                     ///< index among the node's outputs
  explicit operator bool() const { return node || leaf; }  ///< whether the gradient flows anywhere
};

/// The state that all handles of a tensor share: storage, shape, dtype and autograd state. Ops use
/// the methods of Tensor wherever they suffice.
struct TensorImpl {
  std::shared_ptr<Storage> storage;  ///< memory of the elements, shared by views
  Shape shape, strides;              ///< strides in elements, 0 along an expanded axis
  int64_t offset = 0;                ///< position of the first element in the storage, in elements
  Dtype dtype = Dtype::float32;      ///< type of the elements
  Tensor scales;                     ///< for int8: scales, bfloat16 (rows, ceil(columns / 32))
  bool requires_grad = false;        ///< set for leaves; a tensor with a node always requires grad
  int output_index = 0;              ///< index among the node's outputs
  std::shared_ptr<Node> node;        ///< the recorded op that computed it; null for a leaf
  Tensor grad;                       ///< gradient accumulated by backward()
  /// A function registered by register_hook().
  struct Hook {
    int64_t id;                                 ///< the id that remove_hook() takes
    std::function<Tensor(const Tensor&)> call;  ///< gets the gradient; a defined result replaces it
  };
  std::vector<Hook> hooks;  ///< a leaf's hooks; a node stores those of its outputs
};

/// Returns where x's gradient flows: to the op that computed x, to x itself if it is a leaf that
/// requires grad, or nowhere.
Edge edge_of(const Tensor& x);

/// Returns a view of x's storage that is not part of a graph, for ops that return views. The view
/// starts `shift` elements after x's first element.
Tensor view_of(const Tensor& x, const Shape& shape, const Shape& strides, int64_t shift = 0);

/// The set of an op's inputs and outputs that its rule reads. Bit i stands for tensor i, and bit 31
/// for all tensors from 31 on. The graph keeps these tensors and the leaves that require grad for
/// backward. Other tensors are freed as soon as the forward pass releases them.
struct Saves {
  uint32_t inputs = 0, outputs = 0;  ///< one bit per tensor
  /// Whether the op's outputs may be infinite, for example masked_fill with an infinite value. If
  /// true, AnomalyMode does not check them.
  bool allows_infinite = false;
  /// Returns a copy with allows_infinite set.
  constexpr Saves allow_infinite() const { return {inputs, outputs, true}; }
};
///@{
/// Common values of Saves.
inline constexpr Saves saves_nothing{};
inline constexpr Saves saves_inputs{~0u, 0};
inline constexpr Saves saves_output{0, ~0u};
inline constexpr Saves saves_inputs_and_output{~0u, ~0u};
///@}
/// Returns the Saves of a rule that reads only the i-th input.
constexpr Saves saves_input(int i) { return {1u << i, 0}; }

/// The argument of a backward rule: returns the op's saved tensors and output gradients, and
/// receives its input gradients. Methods with a parameter i throw Error if the op has no i-th input
/// or output.
class Backward {
 public:
  /// Returns the i-th input, connected to the graph. Throws Error if the input was not saved, or if
  /// its storage was changed in place after the op.
  Tensor input(int i) const;
  /// Returns the i-th output, connected to the graph. Throws Error in the same cases as input().
  Tensor output(int i = 0) const;
  /// Returns the gradient of the i-th output, or zeros if the output received none.
  Tensor grad(int i = 0) const;
  /// Returns whether the i-th output received a gradient.
  bool has_grad(int i) const;
  /// Returns whether this pass computes the gradient of the i-th input. A rule need not compute the
  /// gradients of other inputs.
  bool needs(int i) const;
  /// Returns the shape of the i-th input, saved or not.
  const Shape& input_shape(int i) const;
  /// Adds `gradient` to the gradient of the i-th input if needs(i), else does nothing. May be
  /// called more than once. Throws Error if needs(i) and `gradient` is undefined or differs from
  /// the input in shape or dtype, and in AnomalyMode also if `gradient` is not finite although all
  /// output gradients are.
  void give(int i, Tensor gradient);
  /// Returns whether the ops that the rule calls are recorded.
  bool create_graph() const;

 private:
  friend class internal::Engine;
  Backward(internal::Engine& engine, Node& node) : engine_(engine), node_(node) {}
  /// Returns i as an index. Throws Error if the op has no i-th input or output.
  size_t input_index(int i) const;
  size_t output_index(int i) const;
  internal::Engine& engine_;
  Node& node_;
};

/// Maps gradients of an op's outputs to gradients of its inputs.
using Rule = std::function<void(Backward&)>;
/// The composed form of a fused op (an op with hand-written kernels for forward and backward): the
/// same function from inputs to outputs, written with basic ops.
using Composed = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// A recorded op. It owns the nodes and leaves that its edges lead to and the tensors that its rule
/// reads, but not the op's outputs: if the rule reads an output, the node saves a detached alias of
/// it.
class Node : public std::enable_shared_from_this<Node> {
 public:
  const char* name() const { return name_; }                 ///< the op's name, for messages
  const std::vector<Edge>& edges() const { return edges_; }  ///< one per input
  uint64_t number() const { return number_; }  ///< larger than those of the inputs' nodes

 private:
  friend class internal::Engine;
  friend class internal::Segment;
  friend class Backward;
  friend struct Recorder;
  friend class gradus::Tensor;
  struct Saved {
    Tensor tensor;  // an input, or a detached alias of an output
    uint64_t version = 0;
  };
  struct OutputMeta {
    Shape shape;
    Dtype dtype;
    std::vector<TensorImpl::Hook> hooks;
    std::weak_ptr<TensorImpl> retains;  // the output, if retain_grad() was called on it
  };
  static void destroy(Node* node);
  /// Frees the rule, the composed form and the saved tensors.
  void drop_saved();
  /// Returns tensor i of `list`. Throws Error if the tensor was not saved, or if its storage was
  /// changed in place afterwards. The message calls the tensor `what`: "input" or "output".
  const Tensor& saved(const std::vector<Saved>& list, const char* what, size_t i) const;
  Node* next_waiting_ = nullptr;  // the next in destroy()'s list of nodes
  const char* name_ = "";
  uint64_t number_ = 0;
  std::vector<Edge> edges_;
  // Each list is empty or has one entry per input or output. Entries of tensors not saved are
  // undefined.
  std::vector<Saved> saved_inputs_, saved_outputs_;
  std::vector<std::pair<Shape, Dtype>> input_meta_;
  std::vector<OutputMeta> outputs_;
  Rule rule_;
  Composed composed_;
  std::shared_ptr<internal::Segment> segment_;  // if set, recomputes dropped tensors; see segment.h
  bool freed_ = false;
  bool bfloat16_ = modes().bfloat16;  // whether products of the rule round to bfloat16
};

/// The parts of record() and record_fused() that do not depend on the type of the rule.
struct Recorder {
  /// Returns whether gradients are recorded and one of the inputs requires grad.
  static bool should_record(const std::vector<Tensor>& inputs);
  /// Records an op, fused if `composed` is not null. The caller has checked should_record(inputs).
  static void record(const char* name, const std::vector<Tensor>& outputs,
                     const std::vector<Tensor>& inputs, Saves saves, Rule rule, Composed composed);
  /// Overwrites the outputs of a fused op with the tensors that `composed` returns. The graph then
  /// contains the basic ops that `composed` calls, and not the fused op.
  static void record_composed(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const Composed& composed);
};

/// Records an op that computed `outputs` from `inputs`. Custom ops call record() too. `rule` maps
/// gradients of the outputs to gradients of the inputs. Does nothing under NoGrad or if no input
/// requires grad. `name` must outlive the graph, as a string literal does. Inputs may be undefined.
/// `outputs` must be new tensors or views created by this op; an output that is part of a graph
/// already throws Error. A rule may capture numbers and tensors outside the graph (masks, indices,
/// statistics) by value, but never the op's outputs.
template <class RuleFn>
void record(const char* name, const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
            Saves saves, RuleFn&& rule) {
  if (Recorder::should_record(inputs))
    Recorder::record(name, outputs, inputs, saves, std::forward<RuleFn>(rule), nullptr);
}

/// Records a fused op or, with Modes::composed, calls record_composed(). Saves all inputs, whatever
/// `saves` says, and the outputs that `saves` lists. Backward without create_graph runs `rule`,
/// which may call kernels. With create_graph the engine differentiates `composed` instead.
/// `composed` maps the inputs, or aliases of them, to the output or to a vector of outputs.
template <class ComposedFn, class RuleFn>
void record_fused(const char* name, const std::vector<Tensor>& outputs,
                  const std::vector<Tensor>& inputs, Saves saves, ComposedFn&& composed,
                  RuleFn&& rule) {
  auto all_outputs = [composed = std::forward<ComposedFn>(composed)](const auto& in) {
    return std::vector<Tensor>{composed(in)};
  };
  if (modes().composed)
    Recorder::record_composed(outputs, inputs, all_outputs);
  else if (Recorder::should_record(inputs))
    Recorder::record(name, outputs, inputs, {~0u, saves.outputs, saves.allows_infinite},
                     std::forward<RuleFn>(rule), std::move(all_outputs));
}

/// Increments the version of x's storage. Every in-place op calls this before it writes, and
/// backward compares versions to detect that a saved tensor has changed. Throws Error if x requires
/// grad while gradients are recorded, or if elements of x share memory along an expanded axis.
void begin_in_place(const char* op, const Tensor& x);

}  // namespace core

struct GradOptions {
  std::vector<Tensor> grad_outputs = {};  ///< gradients of the outputs: none or one per output; a
                                          ///< gradient not given or undefined is 1, and its output
                                          ///< must then have one element
  bool create_graph = false;              ///< record the computation of the gradients
  bool retain_graph = false;              ///< keep the graph for another backward pass (implied by
                                          ///< create_graph)
  bool allow_unused = false;              ///< return undefined tensors for inputs on which no
                                          ///< output depends
};

/// Returns d(outputs)/d(inputs), summed over the outputs, as new tensors with their own memory, in
/// the order of `inputs`. No .grad is changed. The hooks of tensors whose gradients are computed
/// run as in Tensor::backward(). Frees the graph between the outputs and the inputs unless the
/// options retain it. Throws Error in the cases of Tensor::backward(), if an input does not require
/// grad and, without allow_unused, if there is an input on which no output depends.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

/// Returns the graph of `root` in Graphviz's DOT language, drawn in micrograd's style: ellipses for
/// ops, and boxes for the root, for leaves that require grad and for the tensors in `names`. A box
/// shows the tensor's name and shape or, for a tensor of one element, its name, value and gradient.
/// Also works after backward() has freed the saved tensors. Throws Error if `root` or a tensor in
/// `names` does not require grad.
std::string to_dot(const Tensor& root,
                   const std::vector<std::pair<std::string, Tensor>>& names = {});

}  // namespace gradus
