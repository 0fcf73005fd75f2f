#include <unordered_map>
#include <unordered_set>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/internal.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

namespace {

/// Writes a graph's ops and tensors as DOT, from the root down.
class Drawing {
 public:
  explicit Drawing(const NamedTensors& names) {
    for (const auto& [name, tensor] : names) known_[key(edge_of(tensor))] = {name, tensor};
  }
  void know(const Tensor& x) { known_.try_emplace(key(edge_of(x)), Known{"", x}); }

  std::string of(const Tensor& root) {
    visit(edge_of(root));
    for (size_t i = 0; i < ops_.size(); ++i) {
      const Node* op = ops_[i];
      const std::string id = id_of(op);
      out_ << "  " << id << " [label=\"" << op->name() << "\"];\n";
      for (const Edge& edge : op->edges()) {
        if (!edge) continue;
        const std::string from = visit(edge);
        out_ << "  " << from << " -> " << id << ";\n";
      }
    }
    return "digraph gradus {\n  rankdir=LR;\n" + out_.str() + "}\n";
  }

 private:
  using Key = std::pair<const void*, int>;  // an op's output, or a leaf
  struct Known {
    std::string name;
    Tensor tensor;
  };
  static Key key(const Edge& edge) {
    return {edge.node ? static_cast<const void*>(edge.node.get()) : edge.leaf.get(), edge.index};
  }

  /// Draws the tensor that the edge leads to, once; returns its DOT id. An op's output that is not
  /// in `names` has no box: arrows start at the op.
  std::string visit(const Edge& edge) {
    if (edge.node && seen_.insert(edge.node.get()).second) ops_.push_back(edge.node.get());
    if (edge.leaf) know(Tensor(edge.leaf));
    const auto found = known_.find(key(edge));
    if (found == known_.end()) return id_of(edge.node.get());
    const std::string id = id_of(&found->second);
    if (drawn_.insert(&found->second).second) {
      box(id, found->second);
      if (edge.node) out_ << "  " << id_of(edge.node.get()) << " -> " << id << ";\n";
    }
    return id;
  }

  /// "n0", "n1", ... in the order of the first calls.
  std::string id_of(const void* what) {
    return 'n' + std::to_string(ids_.try_emplace(what, ids_.size()).first->second);
  }

  /// "x1 | 2 | grad -1.5", with the shape instead of the value for larger tensors.
  void box(const std::string& id, const Known& known) {
    const Tensor& x = known.tensor;
    out_ << "  " << id << " [shape=record, label=\"{";
    if (!known.name.empty()) out_ << escaped(known.name) << " | ";
    if (x.numel() == 1)
      out_ << x.item();
    else
      out_ << x.shape();
    if (const Tensor dx = x.grad(); dx.defined() && dx.numel() == 1)
      out_ << " | grad " << dx.item();
    out_ << "}\"];\n";
  }

  /// Escapes a name for a record label.
  static std::string escaped(const std::string& name) {
    std::string text;
    for (const char c : name) {
      if (std::string("\\\"{}|<> ").find(c) != std::string::npos) text += '\\';
      text += c == '\n' ? ' ' : c;
    }
    return text;
  }

  std::map<Key, Known> known_;
  std::unordered_set<const Node*> seen_;
  std::unordered_set<const Known*> drawn_;
  std::unordered_map<const void*, size_t> ids_;
  std::vector<const Node*> ops_;
  core::Text out_;
};

}  // namespace

std::string to_dot(const Tensor& root, const NamedTensors& names) {
  check(root.requires_grad(), "to_dot: the tensor does not require grad");
  for (const auto& [name, tensor] : names)
    check(tensor.requires_grad(), "to_dot: ", name,
          " does not require grad, so it is not part of the graph");
  Drawing drawing(names);
  drawing.know(root);
  return drawing.of(root);
}

}  // namespace gradus
