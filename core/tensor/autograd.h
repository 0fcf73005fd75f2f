#pragma once
// Autograd: the graph that ops record, and the interface of backward rules.
//
// An op computes its outputs, then calls record(name, outputs, inputs, saves, rule), which adds a
// node to the graph. The backward pass calls the node's rule to compute the gradients of the
// inputs. Nodes are numbered in the order of recording, and backward runs them in descending order.
// A node therefore runs after all nodes that use its outputs.
//
// For gradients of gradients, the backward pass records the ops that a rule calls. The rule must
// then consist of differentiable ops on tensors. If Backward::create_graph() is false, nothing is
// recorded, and the rule may also call kernels. Rules for record_fused() may always call kernels.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

namespace internal {
class Engine;
class Segment;
}  // namespace internal

namespace core {

class Node;

/// The destination of a gradient. The gradient flows to output number `index` of the op recorded in
/// `node`, or to `leaf`, or nowhere if both pointers are null.
struct Edge {
  std::shared_ptr<Node> node;        ///< null unless the gradient flows to a node
  std::shared_ptr<TensorImpl> leaf;  ///< null unless the gradient flows to a leaf
  int index = 0;                     ///< which output of the node's op the gradient belongs to
  explicit operator bool() const { return node || leaf; }  ///< whether there is a destination
};

/// The state that all handles of a tensor share: storage, shape, dtype and autograd state. Prefer
/// the methods of Tensor where they suffice.
struct TensorImpl {
  std::shared_ptr<Storage> storage;  ///< memory of the elements, shared by views
  Shape shape, strides;              ///< strides in elements, 0 along an expanded axis
  int64_t offset = 0;                ///< position of the first element in the storage, in elements
  Dtype dtype = Dtype::float32;      ///< type of the elements
  Tensor scales;                     ///< for int8: a bfloat16 scale per 32 elements of each row
  uint64_t number = 0;               ///< serial number of a leaf created inside recompute(), else 0
  bool requires_grad = false;        ///< whether a leaf requires grad; a non-leaf always does
  int output_index = 0;              ///< index of this tensor among the outputs of the node's op
  std::shared_ptr<Node> node;        ///< the recorded op that computed this tensor, or null
  Tensor grad;                       ///< gradient accumulated by backward()
  /// A function registered by register_hook().
  struct Hook {
    int64_t id;  ///< the id that remove_hook() takes
    /// The registered function. It takes the gradient and returns a replacement, or an undefined
    /// tensor to keep the gradient. Copies of the Hook share the function and its state.
    std::shared_ptr<std::function<Tensor(const Tensor&)>> call;
  };
  std::vector<Hook> hooks;  ///< hooks of a leaf; the hooks of a non-leaf are stored in its node
};

/// Returns where x's gradient flows: to the op that computed x, to x itself if it is a leaf that
/// requires grad, or nowhere.
Edge edge_of(const Tensor& x);

/// Returns a view of x's storage that is not part of a graph, for ops that return views. The view
/// starts `shift` elements after x's first element.
Tensor view_of(const Tensor& x, const Shape& shape, const Shape& strides, int64_t shift = 0);

/// States which inputs and outputs of an op its backward rule reads. Bit i stands for tensor i,
/// counted from 0; bit 31 stands for tensor 31 and all later ones. Until backward, the graph keeps
/// alive the tensors whose bits are set. It also keeps the leaves that require grad. All other
/// tensors are freed as soon as the forward pass releases them.
struct Saves {
  uint32_t inputs = 0, outputs = 0;  ///< one bit per tensor
  /// If true, AnomalyMode does not check the op's outputs. Set for ops whose outputs may be
  /// infinite on purpose, such as masked_fill with an infinite value.
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
/// Returns the Saves of a rule that reads only the i-th input (for i >= 31: input 31 and all later
/// ones).
constexpr Saves saves_input(int i) { return {1u << std::min(i, 31), 0}; }

/// The argument of a backward rule. The rule gets the op's saved tensors and output gradients from
/// it, and passes the input gradients to give(). Methods with a parameter i throw Error if the op
/// has no i-th input or output.
class Backward {
 public:
  /// Returns the i-th input, still connected to the graph, so that gradients of gradients reach it.
  /// Throws Error if the input was not saved, or if its storage was changed in place after the op.
  Tensor input(int i) const;
  /// Returns the i-th output, still connected to the graph, so that gradients of gradients reach
  /// it. Throws Error if the output was not saved, or if its storage was changed in place after the
  /// op.
  Tensor output(int i = 0) const;
  /// Returns the gradient of the i-th output, or zeros if the output received none. Do not write to
  /// the result: other tensors may share its memory.
  Tensor grad(int i = 0) const;
  /// Returns whether the i-th output received a gradient.
  bool has_grad(int i) const;
  /// Returns whether this backward pass needs the gradient of the i-th input. If not, the rule may
  /// skip it.
  bool needs(int i) const;
  /// Returns the shape of the i-th input, saved or not.
  const Shape& input_shape(int i) const;
  /// Adds `gradient` to the gradient of the i-th input. Does nothing if needs(i) is false. A rule
  /// may call give() several times for one input. Throws Error if `gradient` is undefined or
  /// differs from the input in shape or dtype. In AnomalyMode, also throws Error if `gradient`
  /// contains a NaN or an infinity although all output gradients are finite.
  void give(int i, Tensor gradient);
  /// Returns whether the ops that the rule calls are recorded.
  bool create_graph() const;

 private:
  friend class internal::Engine;
  Backward(internal::Engine& engine, Node& node) : engine_(engine), node_(node) {}
  /// Return i as a size_t. input_index() throws Error if the op has no i-th input, and
  /// output_index() throws Error if the op has no i-th output.
  size_t input_index(int i) const;
  size_t output_index(int i) const;
  internal::Engine& engine_;
  Node& node_;
};

/// A backward rule: computes the gradients of an op's inputs from the gradients of its outputs.
using Rule = std::function<void(Backward&)>;
/// The composed form of a fused op (an op with hand-written kernels for forward and backward): the
/// same function from inputs to outputs, written with basic ops.
using Composed = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// A node of the graph: one recorded op. It owns the nodes and leaves that its edges lead to, and
/// the tensors that its rule reads. It does not own the op's outputs: if the rule reads an output,
/// the node owns a detached alias of that output.
class Node : public std::enable_shared_from_this<Node> {
 public:
  const char* name() const { return name_; }                 ///< the op's name, for messages
  const std::vector<Edge>& edges() const { return edges_; }  ///< where each input's gradient flows
  uint64_t number() const { return number_; }  ///< increases in the order of recording

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
  OutputMeta& output(int i) { return outputs_[static_cast<size_t>(i)]; }
  /// Frees what only backward uses: rule_, composed_ and the saved inputs and outputs.
  void drop_saved();
  /// Returns tensor i of `list`. Throws Error if the tensor was not saved, or if its storage was
  /// changed in place afterwards. `what` names the tensor in the message: "input" or "output".
  const Tensor& saved(const std::vector<Saved>& list, const char* what, size_t i) const;
  Node* next_waiting_ = nullptr;  // the next node in the list of nodes that destroy() will delete
  const char* name_ = "";
  uint64_t number_ = 0;
  std::vector<Edge> edges_;
  // saved_inputs_ is empty or has one entry per input; saved_outputs_ is empty or has one per
  // output. The tensor of an entry is undefined if it was not saved.
  std::vector<Saved> saved_inputs_, saved_outputs_;
  std::vector<std::pair<Shape, Dtype>> input_meta_;
  std::vector<OutputMeta> outputs_;
  Rule rule_;
  Composed composed_;
  std::shared_ptr<internal::Segment> segment_;  // if set, recomputes the saved tensors (segment.h)
  bool freed_ = false;
  bool bfloat16_ = modes().bfloat16;  // value of Modes::bfloat16 at recording; the rule uses it
};

/// The parts of record() and record_fused() that do not depend on the type of the rule.
struct Recorder {
  /// Returns whether grad_enabled() is true and one of the inputs requires grad.
  static bool should_record(const std::vector<Tensor>& inputs);
  /// Records an op. The op is a fused one if `composed` is not null. Requires that
  /// should_record(inputs) is true.
  static void record(const char* name, const std::vector<Tensor>& outputs,
                     const std::vector<Tensor>& inputs, Saves saves, Rule rule, Composed composed);
  /// Overwrites the outputs of a fused op with the tensors that `composed` returns. The graph then
  /// contains the basic ops that `composed` calls, and not the fused op.
  static void record_composed(const char* name, const std::vector<Tensor>& outputs,
                              const std::vector<Tensor>& inputs, const Composed& composed);
};

/// Adds a node to the graph for an op that computed `outputs` from `inputs`. Does nothing under
/// NoGrad or if no input requires grad. User-defined ops call this function too. `rule` computes
/// the gradients of the inputs from the gradients of the outputs. `saves` states which inputs and
/// outputs the rule reads. `name` must outlive the graph, as a string literal does. Inputs may be
/// undefined.
///
/// The outputs must be new tensors, or views that this op created. Throws Error if an output is
/// already part of a graph. A rule may capture, by value, numbers and tensors outside the graph,
/// such as masks or indices. It must not capture the op's outputs.
template <class RuleFn>
void record(const char* name, const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
            Saves saves, RuleFn&& rule) {
  if (Recorder::should_record(inputs))
    Recorder::record(name, outputs, inputs, saves, std::forward<RuleFn>(rule), nullptr);
}

/// Records an op that a fused kernel computed. `composed` is the same function written with basic
/// ops: it maps the inputs, or aliases of them, to the output or to a vector of outputs. Without
/// create_graph, backward runs `rule`, which may call kernels. With create_graph, backward
/// differentiates `composed` instead. Saves all inputs, whatever `saves` states, and the outputs
/// that `saves` selects. `composed` must return as many outputs as the op has. If not, Error is
/// thrown when `composed` runs.
///
/// If Modes::composed is true, overwrites `outputs` with the results of `composed`. The graph then
/// contains the basic ops that `composed` calls, and not the fused op.
template <class ComposedFn, class RuleFn>
void record_fused(const char* name, const std::vector<Tensor>& outputs,
                  const std::vector<Tensor>& inputs, Saves saves, ComposedFn&& composed,
                  RuleFn&& rule) {
  auto all_outputs = [composed = std::forward<ComposedFn>(composed)](const auto& in) {
    return std::vector<Tensor>{composed(in)};
  };
  if (modes().composed)
    Recorder::record_composed(name, outputs, inputs, all_outputs);
  else if (Recorder::should_record(inputs))
    Recorder::record(name, outputs, inputs, {~0u, saves.outputs, saves.allows_infinite},
                     std::forward<RuleFn>(rule), std::move(all_outputs));
}

/// Increments the version of x's storage. Every in-place op calls this before it writes, and
/// backward compares versions to detect that a saved tensor has changed. Throws Error if x requires
/// grad and grad_enabled() is true, or if elements of x share memory along an expanded axis.
void begin_in_place(const char* op, const Tensor& x);

}  // namespace core

struct GradOptions {
  /// The gradient of the loss with respect to each output. An empty list, or an undefined entry,
  /// stands for a gradient of 1; the output must then have one element.
  std::vector<Tensor> grad_outputs = {};
  /// If true, records the computation of the gradients, so that they can be differentiated.
  bool create_graph = false;
  /// If true, keeps the graph for another backward pass. create_graph implies this.
  bool retain_graph = false;
  /// If true, grad() returns an undefined tensor for an input on which no output depends. If false,
  /// grad() throws Error for such an input.
  bool allow_unused = false;
};

/// Returns the gradient of the outputs with respect to each input, in the order of `inputs`. If
/// there are several outputs, their gradients are summed. Each result has its own memory, and no
/// .grad is changed. As Tensor::backward() does, calls the hooks of every tensor whose gradient it
/// computes. Frees the graph between the outputs and the inputs unless the options retain it.
/// Throws Error in the cases of Tensor::backward() and if an input does not require grad. Also
/// throws Error if no output depends on an input, unless allow_unused is true.
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
