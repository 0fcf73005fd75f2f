#pragma once
// Runs programs.

#include <optional>
#include <span>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// How a program is run. All ways must give the same values and gradients.
struct Way {
  Dtype dtype = float64;
  bool composed = false;    ///< fused ops are computed from basic ops
  bool contiguous = false;  ///< all leaves are
  bool apart = false;       ///< leaves are parts of one storage, with other numbers between them
  double noise = 0;  ///< each value is multiplied by 1 + noise times a random number in [-1, 1]
  uint64_t noise_seed = 0;
  int recompute_from = 0, recompute_to = 0;      ///< these steps run in recompute()
  const std::vector<Tensors>* frozen = nullptr;  ///< values of the steps that detach
};

/// A tensor with the leaf's values.
Tensor leaf_tensor(const Leaf& leaf, Dtype dtype, Layout layout);

/// The program's leaves, in order of its steps; undefined for the other steps.
Tensors make_leaves(const Program& program, const Way& way);

/// What the hooks and retain_grad() saw, per step.
struct Seen {
  Tensors hooked, retained;
};

/// The values of all steps.
std::vector<Tensors> forward(const Program& program, const Tensors& leaves, const Way& way,
                             Seen* seen = nullptr);

/// The outputs that require grad, and their gradients: constants that depend on shapes only.
struct Roots {
  Tensors outputs, gradients;
};
Roots roots(const Program& program, const std::vector<Tensors>& values);
/// The sum of the roots, each times its gradient; undefined if there is none.
Tensor loss(const Roots& roots);

/// All values and gradients of a program.
struct Result {
  std::vector<Tensors> values;  ///< outside the graph
  Tensors gradients;            ///< per step, of leaves; undefined if missing
  Seen seen;
};
Result run(const Program& program, const Way& way = {});

/// The leaves that require grad.
Tensors wanted(const Tensors& leaves);
/// Numbers in [-1, 1) that depend on shape and seed only.
Tensor constants(const Shape& shape, Dtype dtype, uint64_t seed);

}  // namespace gradus::programs
