#pragma once
// Runs programs.

#include <optional>
#include <span>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Options for running a program. Whatever the options, the values and gradients must be the same,
/// up to rounding and `noise`.
struct Way {
  Dtype dtype = float64;
  bool composed = false;    ///< compute fused ops from basic ops
  bool contiguous = false;  ///< make all leaves contiguous
  bool apart = false;       ///< make floating leaves views of one storage, with 1e30 between them
  /// If not 0, each element of a floating value is multiplied by 1 + noise u, with u random in
  /// [-1, 1). Leaves that do not require grad keep their values. Before backward, run() multiplies
  /// the contiguous tensors that backward rules may read by further such factors, in place, so that
  /// the rules read other values than the forward pass did. Requires float64.
  double noise = 0;
  uint64_t noise_seed = 0;
  /// If not null, forward() appends to it the tensors that backward rules may read. run() sets it
  /// if noise is not 0.
  Tensors* read = nullptr;
  int recompute_from = 0, recompute_to = 0;  ///< run steps [from, to) in recompute()
  /// If not null, the outputs of an earlier run, per step. The steps that let no gradient through
  /// then return these outputs again, whatever their arguments are.
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

/// The gradients that hooks received and that retain_grad() kept: one tensor per step, undefined
/// where there is none.
struct Seen {
  Tensors hooked, retained;
};

/// Runs the program forward and returns the values of all steps. If `seen` is not null, the hooks
/// write to seen->hooked during backward, so `seen` must exist until then.
std::vector<Tensors> forward(const Program& program, const Tensors& leaves, const Way& way,
                             Seen* seen = nullptr);

/// The outputs of a program that require grad, and the gradients that backward starts from. These
/// gradients are constants that depend only on the shape, step and index of the output.
struct Roots {
  Tensors outputs, gradients;
};
Roots roots(const Program& program, const std::vector<Tensors>& values);
/// Returns the sum of outputs * gradients over all roots, or an undefined tensor if there are none.
Tensor loss(const Roots& roots);

/// All values and gradients of a program.
struct Result {
  std::vector<Tensors> values;  ///< detached
  Tensors gradients;            ///< per step; undefined if the step is not a leaf or got none
  Seen seen;
  double largest = 0;  ///< the largest norm of a value's gradient; only set by runs with noise
};
Result run(const Program& program, const Way& way = {});

/// Returns the leaves that require grad.
Tensors wanted(const Tensors& leaves);
/// Returns numbers in [-1, 1) that depend only on shape and seed.
Tensor constants(const Shape& shape, Dtype dtype, uint64_t seed);

}  // namespace gradus::programs
