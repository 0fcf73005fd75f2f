#pragma once
// Autograd: the graph recorded by ops, and the interface of backward rules.
//
// An op computes its outputs, then calls record(name, outputs, inputs, saves, rule). The rule is
// written with differentiable ops on tensors, so backward with create_graph records these ops, and
// gradients of gradients need no more code. Nodes are numbered in the order of recording; a node's
// inputs always have smaller numbers, so descending numbers are a topological order for backward.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

namespace internal {
class Engine;
class Segment;
}  // namespace internal

namespace core {

class Node;

/// Where a gradient flows: to output `index` of a node, to a leaf, or (both null) nowhere.
struct Edge {
  std::shared_ptr<Node> node;                              ///< null for a leaf
  std::shared_ptr<TensorImpl> leaf;                        ///< null for a node's output
  int index = 0;                                           ///< which of the node's outputs
  explicit operator bool() const { return node || leaf; }  ///< whether a gradient flows at all
};

/// The data of a tensor, shared by its handles. Ops use Tensor's methods; only core's own files use
/// this.
struct TensorImpl {
  std::shared_ptr<Storage> storage;  ///< shared by views
  Shape shape, strides;              ///< strides in elements, 0 along an expanded axis
  int64_t offset = 0;                ///< of the first element, in elements
  Dtype dtype = Dtype::float32;      ///< of every element
  Tensor scales;                     ///< of an int8 matrix: (rows, blocks), bfloat16
  bool requires_grad = false;        ///< of a leaf; a tensor with a node always requires grad
  int output_index = 0;              ///< index among the node's outputs
  std::shared_ptr<Node> node;        ///< the recorded op that computed it; null for a leaf
  Tensor grad;                       ///< accumulated by backward()
  /// A function registered by register_hook().
  struct Hook {
    int64_t id;                                 ///< the handle that remove_hook() takes
    std::function<Tensor(const Tensor&)> call;  ///< gets the gradient; a defined result replaces it
  };
  std::vector<Hook> hooks;  ///< of a leaf; hooks of other tensors are in their node
};

/// Where x's gradient flows: to the op that computed it, to x itself if it is a leaf, or nowhere.
Edge edge_of(const Tensor& x);

/// A view of x's storage outside the graph, for ops that return views. It starts `shift` elements
/// after x's first element.
Tensor view_of(const Tensor& x, const Shape& shape, const Shape& strides, int64_t shift = 0);

/// Which of an op's inputs and outputs its rule reads: bit i for the i-th (bit 31 stands for all
/// from 31 on). The graph keeps them for backward; other tensors are freed as soon as the forward
/// pass releases them.
struct Saves {
  uint32_t inputs = 0, outputs = 0;  ///< one bit per tensor
  /// Whether the op's outputs may be infinite, as when a mask's fill value is; if so, AnomalyMode
  /// does not check them.
  bool allows_infinite = false;
  /// A copy with allows_infinite set.
  constexpr Saves allow_infinite() const { return {inputs, outputs, true}; }
};
///@{
/// The usual combinations.
inline constexpr Saves saves_nothing{};
inline constexpr Saves saves_inputs{~0u, 0};
inline constexpr Saves saves_output{0, ~0u};
inline constexpr Saves saves_inputs_and_output{~0u, ~0u};
///@}
/// Saves only the i-th input.
constexpr Saves saves_input(int i) { return {1u << i, 0}; }

/// What a backward rule sees of its op. Every method throws Error if the op has no i-th input or
/// output.
class Backward {
 public:
  /// The i-th input, connected to the graph. Throws Error if it was not saved, or has been changed
  /// in place since.
  Tensor input(int i) const;
  /// The i-th output; throws as input() does.
  Tensor output(int i = 0) const;
  /// The gradient of the i-th output; zeros if it received none.
  Tensor grad(int i = 0) const;
  /// Whether the i-th output received a gradient.
  bool has_grad(int i) const;
  /// Whether the i-th input requires a gradient. Rules compute no gradients of other inputs.
  bool needs(int i) const;
  /// The shape of the i-th input, saved or not.
  const Shape& input_shape(int i) const;
  /// Adds to the gradient of the i-th input; does nothing unless needs(i). May be called more than
  /// once. Throws Error unless `gradient` has the input's shape and dtype.
  void give(int i, Tensor gradient);
  /// Whether the rule's own ops are being recorded.
  bool create_graph() const;

 private:
  friend class internal::Engine;
  Backward(internal::Engine& engine, Node& node) : engine_(engine), node_(node) {}
  /// Converts i to an index. Throws Error unless the op has an i-th input or output.
  size_t input_index(int i) const;
  size_t output_index(int i) const;
  internal::Engine& engine_;
  Node& node_;
};

/// Maps gradients of an op's outputs to gradients of its inputs.
using Rule = std::function<void(Backward&)>;
/// The composed form of a fused op (one whose forward and backward are kernels): the same function
/// from inputs to outputs, written with basic ops.
using Composed = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// A recorded op. It owns its inputs' nodes and the tensors its rule reads, but none of its
/// outputs, which it saves as detached aliases.
class Node : public std::enable_shared_from_this<Node> {
 public:
  const char* name() const { return name_; }                 ///< the op's name, for messages
  const std::vector<Edge>& edges() const { return edges_; }  ///< one per input
  uint64_t number() const { return number_; }  ///< larger than the numbers of its inputs' nodes

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
  /// Frees everything that only the rule needs.
  void drop_saved();
  /// Returns tensor i of `list`. Throws Error if it was not saved or has changed since; the message
  /// calls it `what`, "input" or "output".
  const Tensor& saved(const std::vector<Saved>& list, const char* what, size_t i) const;
  Node* next_waiting_ = nullptr;  // the next in destroy()'s list of nodes
  const char* name_ = "";
  uint64_t number_ = 0;
  std::vector<Edge> edges_;
  // Each list is empty or has one entry per input or output; tensors not saved are undefined.
  std::vector<Saved> saved_inputs_, saved_outputs_;
  std::vector<std::pair<Shape, Dtype>> input_meta_;
  std::vector<OutputMeta> outputs_;
  Rule rule_;
  Composed composed_;
  std::shared_ptr<internal::Segment> segment_;  // if set, computes what was dropped; see segment.h
  bool freed_ = false;
  bool bfloat16_ = modes().bfloat16;  // the rule's products follow those of the op
};

/// The part of record that does not depend on the rule's type.
struct Recorder {
  /// Whether gradients are recorded and one of the inputs requires grad.
  static bool should_record(const std::vector<Tensor>& inputs);
  /// As core::record, after the caller has checked should_record(inputs).
  static void record(const char* name, const std::vector<Tensor>& outputs,
                     const std::vector<Tensor>& inputs, Saves saves, Rule rule, Composed composed);
  /// Overwrites a fused op's outputs with what `composed` returns, and records, instead of the
  /// fused op, the basic ops that `composed` calls.
  static void record_composed(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const Composed& composed);
};

/// Records an op: `outputs` were computed from `inputs`; `rule` maps gradients of the outputs to
/// gradients of the inputs. Does nothing under NoGrad or if no input requires grad. `outputs` must
/// be new tensors or views created by this op. Custom ops are recorded the same way. A rule may
/// capture, by value, numbers and those tensors that are outside the graph (masks, indices,
/// statistics), but never the op's outputs.
template <class RuleFn>
void record(const char* name, const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
            Saves saves, RuleFn&& rule) {
  if (Recorder::should_record(inputs))
    Recorder::record(name, outputs, inputs, saves, std::forward<RuleFn>(rule), nullptr);
}

/// Records a fused op. All inputs are saved, whatever `saves` says; of the outputs, those that
/// `saves` lists. Backward without create_graph runs `rule`, which may call kernels. With
/// create_graph the engine differentiates `composed` instead, a function that maps aliases of the
/// inputs to the output or a vector of outputs.
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

/// Increments the version of x's storage, by which backward detects that a saved tensor has
/// changed. Every in-place op calls it before writing. Throws Error if x requires grad while
/// gradients are recorded, or if elements of x share memory with each other (along an expanded
/// axis).
void begin_in_place(const char* op, const Tensor& x);

}  // namespace core

struct GradOptions {
  std::vector<Tensor> grad_outputs = {};  ///< one per output; by default 1, for one-element outputs
  bool create_graph = false;              ///< record the computation of the gradients
  bool retain_graph = false;  ///< keep the graph for another pass (implied by create_graph)
  bool allow_unused = false;  ///< return undefined for inputs that no output depends on
};

/// Returns d(outputs)/d(inputs) as new tensors with their own memory, in the order of inputs; no
/// .grad changes. Hooks of the inputs run as in backward(). Throws Error if an input does not
/// require grad or, unless allow_unused is set, if no output depends on it.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

/// Returns the graph of `root` in Graphviz's DOT language, drawn like micrograd's: an ellipse per
/// op, a box per tensor with its name, value (or shape) and gradient. Boxes are drawn only for
/// leaves, the root and the tensors in `names`; the graph does not hold the others. Works after
/// backward() too.
std::string to_dot(const Tensor& root,
                   const std::vector<std::pair<std::string, Tensor>>& names = {});

}  // namespace gradus
