#include <sstream>
#include <unordered_set>

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"

namespace gradus {

std::string to_dot(const Tensor& root) {
  std::ostringstream out;
  out << "digraph gradus {\n  rankdir=BT;\n";
  std::unordered_set<const void*> seen;
  std::vector<Node*> order;
  auto visit = [&](const Edge& edge) -> const void* {
    if (edge.node) {
      if (seen.insert(edge.node.get()).second) order.push_back(edge.node.get());
      return edge.node.get();
    }
    if (edge.leaf && seen.insert(edge.leaf.get()).second) {
      const Tensor leaf(edge.leaf);
      out << "  n" << edge.leaf.get() << " [shape=box, label=\"" << leaf.shape();
      if (leaf.numel() == 1) out << " = " << leaf.item();
      if (leaf.numel() == 1 && leaf.grad().defined()) out << "\\ngrad " << leaf.grad().item();
      out << "\"];\n";
    }
    return edge.leaf.get();
  };
  const void* top = visit(edge_of(root));
  check(top, "to_dot: the tensor does not require grad");
  for (size_t i = 0; i < order.size(); ++i) {
    out << "  n" << order[i] << " [label=\"" << order[i]->name() << "\"];\n";
    for (const Edge& edge : order[i]->edges())
      if (const void* from = visit(edge)) out << "  n" << from << " -> n" << order[i] << ";\n";
  }
  out << "  result [shape=plaintext, label=\"" << root.shape();
  if (root.numel() == 1) out << " = " << root.item();
  out << "\"];\n  n" << top << " -> result;\n}\n";
  return out.str();
}

}  // namespace gradus
