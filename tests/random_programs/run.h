#pragma once
// Runs programs.

#include <optional>
#include <span>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Options for running a program. Values and gradients must not depend on the options, except for
/// rounding and `noise`.
struct Way {
  Dtype dtype = float64;
  bool composed = false;    ///< compute fused ops from basic ops
  bool contiguous = false;  ///< make all leaves contiguous
  bool apart = false;       ///< store floating leaves in one tensor, with values 1e30 between them
  /// Relative noise, to measure how sensitive a program is to rounding. Each element of a floating
  /// value is multiplied by 1 + noise * u, with a random u in [-1, 1). Leaves that do not require
  /// grad get no noise in the forward pass. Before backward, run() adds noise again, in place, to
  /// the contiguous tensors that backward rules may read. Noise requires float64.
  double noise = 0;
  uint64_t noise_seed = 0;
  /// If not null, forward() appends the tensors that backward rules may read to this list. Callers
  /// of run() leave it null; run() sets it if `noise` is not 0.
  Tensors* read = nullptr;
  /// Run steps [recompute_from, recompute_to) inside recompute(). No step if both are equal.
  int recompute_from = 0, recompute_to = 0;
  /// If not null, the outputs of each step in an earlier run. Steps that no gradient flows through
  /// then return these outputs instead of their own, so that they are constant.
  const std::vector<Tensors>* frozen = nullptr;
};

/// Returns a tensor with the values of the leaf. Leaves of int64 and bool ignore `dtype` and
/// `layout`.
Tensor leaf_tensor(const Leaf& leaf, Dtype dtype, Layout layout);

/// Returns the value that `ref` refers to, given the values of all steps. Throws Error if the step
/// has no such output: shrinking may leave a `chunk` or `unbind` with fewer outputs.
const Tensor& value_of(const std::vector<Tensors>& values, Ref ref);

/// Returns the leaves of the program: one tensor per step, undefined if the step is not a leaf.
Tensors make_leaves(const Program& program, const Way& way);

/// The gradients that hooks received (`hooked`) and that retain_grad() kept (`retained`). Both
/// lists have one tensor per step, which is undefined if there is no such gradient.
struct Seen {
  Tensors hooked, retained;
};

/// Runs the program forward and returns the outputs of each step. If `seen` is not null, hooks
/// write to seen->hooked during backward; the caller must keep *seen alive until backward has
/// ended.
std::vector<Tensors> forward(const Program& program, const Tensors& leaves, const Way& way,
                             Seen* seen = nullptr);

/// The outputs of a program that require grad, and the gradients that backward starts from. These
/// gradients are constants that depend only on the shape, step and index of the output.
struct Roots {
  Tensors outputs, gradients;
};
Roots roots(const Program& program, const std::vector<Tensors>& values);
/// Returns the sum of all elements of outputs[i] * gradients[i], over all i. Returns an undefined
/// tensor if there are no outputs.
Tensor loss(const Roots& roots);

/// All values and gradients of a program.
struct Result {
  std::vector<Tensors> values;  ///< detached
  Tensors gradients;            ///< per step; undefined if the step is no leaf or got no gradient
  Seen seen;
  double largest = 0;  ///< largest norm of any value's gradient; computed only if Way::noise != 0
};
Result run(const Program& program, const Way& way = {});

/// Returns the leaves that require grad.
Tensors wanted(const Tensors& leaves);
/// Returns a tensor of pseudo-random numbers in [-1, 1), which depend only on shape and seed.
Tensor constants(const Shape& shape, Dtype dtype, uint64_t seed);

}  // namespace gradus::programs
