#pragma once
// Autograd: the graph that ops record and the engine that walks it backward.
//
// An op computes its outputs, then calls record(name, outputs, inputs, what it saves, rule). The
// rule is written with differentiable ops on tensors, so under create_graph it records itself and
// gradients of gradients need no more code. Nodes carry increasing numbers; a node's inputs always
// have smaller ones, so walking nodes from the largest number down is a topological order.

#include "gradus/core/tensor/tensor.h"

namespace gradus {

namespace core {

class Node;
class Engine;

/// One of an op's outputs as seen from its consumer: (node, output index), or a leaf tensor.
struct Edge {
  std::shared_ptr<Node> node;        ///< null for a leaf
  std::shared_ptr<TensorImpl> leaf;  ///< null for a node's output; both null: no gradient wanted
  int index = 0;                     ///< of the node's output
  explicit operator bool() const { return node || leaf; }  ///< whether a gradient is wanted
};

/// What a tensor is made of. Ops get at it through Tensor's methods; only core's own files use it.
struct TensorImpl {
  std::shared_ptr<Storage> storage;  ///< shared by views
  Shape shape, strides;              ///< strides in elements, 0 along an expanded axis
  int64_t offset = 0;                ///< of the first element, in elements
  Dtype dtype = Dtype::float32;      ///< of every element
  bool requires_grad = false;        ///< of leaves; others have a node
  int output_index = 0;              ///< which of the node's outputs it is
  std::shared_ptr<Node> node;        ///< the op that made it; null for a leaf
  Tensor grad;                       ///< what backward() has summed here
  /// What register_hook() was given.
  struct Hook {
    int64_t id;                                 ///< by which remove_hook() finds it
    std::function<Tensor(const Tensor&)> call;  ///< gets the gradient; a defined result replaces it
  };
  std::vector<Hook> hooks;  ///< of a leaf; a made tensor's stand in its node
};

/// The way that x's gradient goes: to the op that made it, to x itself if it is a leaf, or nowhere.
Edge edge_of(const Tensor& x);

/// Another look at x's storage, `shift` elements further on, outside the graph: for ops that make
/// views.
Tensor view_of(const Tensor& x, const Shape& shape, const Shape& strides, int64_t shift = 0);

/// Which inputs and outputs a rule reads: bit i for the i-th (bit 31 stands for all from 31 on).
/// Whatever is not saved is freed as soon as the forward pass lets go of it.
struct Saves {
  uint32_t inputs = 0, outputs = 0;  ///< bit masks
};
///@{
/// The usual ones.
inline constexpr Saves saves_nothing{};
inline constexpr Saves saves_inputs{~0u, 0};
inline constexpr Saves saves_output{0, ~0u};
inline constexpr Saves saves_inputs_and_output{~0u, ~0u};
///@}
/// Only the i-th input.
constexpr Saves saves_input(int i) { return {1u << i, 0}; }

/// What a backward rule sees of its op. Every method throws Error where the op has no i-th input or
/// output.
class Backward {
 public:
  /// The i-th input, connected to the graph. Throws Error if it was not saved, or was changed in
  /// place since.
  Tensor input(int i) const;
  /// The i-th output, likewise.
  Tensor output(int i = 0) const;
  /// The gradient of the i-th output; zeros where none arrived.
  Tensor grad(int i = 0) const;
  /// Whether a gradient of the i-th output arrived.
  bool has_grad(int i) const;
  /// Whether the i-th input wants a gradient: a rule computes no other.
  bool needs(int i) const;
  /// The shape of the i-th input, saved or not.
  const Shape& input_shape(int i) const;
  /// Hands over the gradient of the i-th input, which is added to what other consumers gave. Throws
  /// Error unless it has the input's shape and dtype. May be called more than once.
  void give(int i, Tensor gradient);
  /// Whether the rule's own ops are being recorded.
  bool create_graph() const;

 private:
  friend class Engine;
  friend Tensor sum_in_place(const Backward& back, int i);
  friend Tensor take_input(const Backward& back, int i);
  friend Tensor take_grad(const Backward& back, int i);
  Backward(Engine& engine, Node& node) : engine_(engine), node_(node) {}
  /// i as an index of an input or output. Throws Error unless the op has it.
  size_t input_index(int i) const;
  size_t output_index(int i) const;
  /// The saved "input" or "output" i.
  const Tensor& saved(const char* what, int i) const;
  Engine& engine_;
  Node& node_;
};

/// Turns gradients of an op's outputs into gradients of its inputs.
using Rule = std::function<void(Backward&)>;
/// A fused op written with basic ops, from inputs to outputs.
using Composed = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// A recorded op. It owns its inputs' nodes and the tensors its rule reads, never its outputs.
class Node : public std::enable_shared_from_this<Node> {
 public:
  const char* name() const { return name_; }                 ///< what the op is called in messages
  const std::vector<Edge>& edges() const { return edges_; }  ///< one an input
  uint64_t number() const { return number_; }  ///< larger than that of any node that it reads from

 private:
  friend class Engine;
  friend class Backward;
  friend struct Recorder;
  friend Tensor take_input(const Backward& back, int i);
  struct Saved {
    Tensor tensor;  // an input, or an alias of an output outside the graph
    uint64_t version = 0;
  };
  struct OutputMeta {
    Shape shape;
    Dtype dtype;
    std::vector<TensorImpl::Hook> hooks;
    std::weak_ptr<TensorImpl> retains;  // the output, if its gradient is to be kept
  };
  friend class gradus::Tensor;
  static void destroy(Node* node);
  Node* next_waiting_ = nullptr;  // to be destroyed
  const char* name_ = "";
  uint64_t number_ = 0;
  std::vector<Edge> edges_;
  std::vector<Saved> saved_inputs_, saved_outputs_;  // empty, or one each (undefined: not saved)
  std::vector<std::pair<Shape, Dtype>> input_meta_;
  std::vector<OutputMeta> outputs_;
  Rule rule_;
  Composed composed_;
  bool freed_ = false;
};

/// The part of record that does not depend on the rule's type.
struct Recorder {
  /// Whether gradients are on and one of the inputs wants one.
  static bool wanted(const std::vector<Tensor>& inputs);
  /// As core::record, whose inputs are known to want a gradient.
  static void record(const char* name, const std::vector<Tensor>& outputs,
                     const std::vector<Tensor>& inputs, Saves saves, Rule rule, Composed composed);
};

/// Records an op: `outputs` were computed from `inputs`; `rule` turns gradients of the outputs into
/// gradients of the inputs. Does nothing where gradients are off or no input wants one. `outputs`
/// must be fresh tensors or views made by this op. Public: a user's own op is made the same way.
/// A rule may capture by value plain numbers and tensors outside the graph (masks, indices,
/// statistics), never its own outputs.
template <class RuleFn>
void record(const char* name, const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
            Saves saves, RuleFn&& rule) {
  if (Recorder::wanted(inputs))
    Recorder::record(name, outputs, inputs, saves, std::forward<RuleFn>(rule), nullptr);
}

/// Records a fused op, all of whose inputs are saved. Ordinary backward runs `rule`, which may be
/// made of kernels; under create_graph the engine differentiates `composed` instead, which makes
/// the output, or a vector of them, from aliases of the inputs. `saves` says what more the rule
/// reads.
template <class ComposedFn, class RuleFn>
void record_fused(const char* name, const std::vector<Tensor>& outputs,
                  const std::vector<Tensor>& inputs, Saves saves, ComposedFn&& composed,
                  RuleFn&& rule) {
  if (Recorder::wanted(inputs))
    Recorder::record(name, outputs, inputs, {~0u, saves.outputs}, std::forward<RuleFn>(rule),
                     [composed = std::forward<ComposedFn>(composed)](const auto& in) {
                       return std::vector<Tensor>{composed(in)};
                     });
}

/// Raises the version of x's storage; throws Error if a gradient would be recorded through x. Every
/// in-place op calls it before it writes.
void begin_in_place(const char* op, const Tensor& x);

}  // namespace core

struct GradOptions {
  std::vector<Tensor> grad_outputs = {};  ///< one an output; empty: ones, if of one element
  bool create_graph = false;              ///< record the gradients' own computation
  bool retain_graph = false;  ///< keep the graph for another pass (implied by create_graph)
  bool allow_unused = false;  ///< an input that outputs do not depend on gets an undefined tensor
};

/// d(outputs)/d(inputs) as new tensors, each with memory of its own, in the order of inputs; no
/// .grad is touched. Throws Error if an input wants no gradient or, unless allow_unused, is not
/// reached.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

/// The graph behind `root` in Graphviz's DOT language, as micrograd draws it: an ellipse an op, a
/// box a tensor with its name, its number (or shape) and its gradient. Boxes are drawn of leaves,
/// the root and what `names` lists: the graph does not hold the others. After backward() it is
/// there still.
std::string to_dot(const Tensor& root,
                   const std::vector<std::pair<std::string, Tensor>>& names = {});

}  // namespace gradus
