// A scalar graph: one neuron, its gradients by autograd and by hand, and a picture of the graph.
//
//   build/bin/scalar_graph [FILE.dot]       then: dot -Tpng FILE.dot -o FILE.png

#include <gradus/gradus.h>

#include <cmath>
#include <cstdio>

#include "examples/support/cli.h"
#include "examples/support/folder.h"

using namespace gradus;

int run(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "out/scalar_graph.dot";
  if (path.starts_with('-')) {
    std::puts("usage: scalar_graph [FILE.dot]");
    return path == "--help" ? 0 : 1;
  }

  // Leaves: two inputs, two weights and a bias, all of which require gradients.
  const Tensor x1 = scalar(2, float64).requires_grad_();
  const Tensor x2 = scalar(0, float64).requires_grad_();
  const Tensor w1 = scalar(-3, float64).requires_grad_();
  const Tensor w2 = scalar(1, float64).requires_grad_();
  const Tensor b = scalar(6.7, float64).requires_grad_();

  // Each op computes its value and records a node with edges to its inputs.
  const Tensor n = x1 * w1 + x2 * w2 + b;
  const Tensor y = tanh(n);
  n.retain_grad();  // only leaves keep their gradient by default
  std::printf("n = x1 w1 + x2 w2 + b = %.4f,  y = tanh(n) = %.4f\n", n.item(), y.item());

  // Backward walks the graph from y to the leaves, multiplying local derivatives: the chain rule.
  y.backward();

  // The gradients by hand. dy/dn = 1 - tanh(n)^2; n is linear in everything else.
  const double dn = 1 - std::pow(std::tanh(n.item()), 2);
  std::printf("          autograd   by hand\n");
  std::printf("dy/dx1  %10.4f%10.4f   = dy/dn * w1\n", x1.grad().item(), dn * w1.item());
  std::printf("dy/dw1  %10.4f%10.4f   = dy/dn * x1\n", w1.grad().item(), dn * x1.item());
  std::printf("dy/dx2  %10.4f%10.4f   = dy/dn * w2\n", x2.grad().item(), dn * w2.item());
  std::printf("dy/dw2  %10.4f%10.4f   = dy/dn * x2\n", w2.grad().item(), dn * x2.item());
  std::printf("dy/db   %10.4f%10.4f   = dy/dn\n", b.grad().item(), dn);

  // Gradients are tensors, so they have gradients too: y'' = -2 tanh(n) (1 - tanh(n)^2).
  const Tensor again = tanh(x1 * w1 + x2 * w2 + b);
  const Tensor first = grad({again}, {b}, {.create_graph = true})[0];
  const Tensor second = grad({first}, {b})[0];
  std::printf("d2y/db2 %10.4f%10.4f   = -2 y dy/dn\n", second.item(), -2 * y.item() * dn);

  // The graph in Graphviz's format, with names, values and gradients.
  make_folder_of(path);
  write_file_atomically(
      path,
      to_dot(y, {{"x1", x1}, {"w1", w1}, {"x2", x2}, {"w2", w2}, {"b", b}, {"n", n}, {"y", y}}));
  std::printf("picture: %s   (dot -Tpng %s -o graph.png)\n", path.c_str(), path.c_str());
  return 0;
}

int main(int argc, char** argv) { return run_program("scalar_graph", argc, argv, run); }
