#pragma once
// Runs programs.

#include <optional>
#include <span>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// A way to run a program. All ways must give the same values and gradients, up to rounding and
/// `noise`.
struct Way {
  Dtype dtype = float64;
  bool composed = false;    ///< compute fused ops from basic ops
  bool contiguous = false;  ///< make all leaves contiguous
  bool apart = false;       ///< make floating leaves views of one storage, with 1e30 between them
  /// Multiply each floating value, except leaves that do not require grad, by 1 + noise u, with u
  /// random in [-1, 1). Before backward, run() also multiplies, in place and by such factors, the
  /// contiguous tensors that backward rules may read. The rules then read other values than the
  /// forward pass did. float64 only.
  double noise = 0;
  uint64_t noise_seed = 0;
  Tensors* read = nullptr;  ///< set by run() if noise > 0: collects what backward rules may read
  int recompute_from = 0, recompute_to = 0;      ///< run steps [from, to) in recompute()
  const std::vector<Tensors>* frozen = nullptr;  ///< outputs per step, or null; a step that
                                                 ///< detaches returns its outputs in this list
};

/// Returns a tensor with the values of the leaf. Leaves of int64 and bool ignore `dtype` and
/// `layout`.
Tensor leaf_tensor(const Leaf& leaf, Dtype dtype, Layout layout);

/// Returns the value of `ref` among the values of all steps. Throws Error if the step has no such
/// output, as when shrinking leaves a `chunk` or `unbind` with fewer outputs.
const Tensor& value_of(const std::vector<Tensors>& values, Ref ref);

/// Returns one tensor per step of the program: the leaf or, for a step that is not a leaf, an
/// undefined tensor.
Tensors make_leaves(const Program& program, const Way& way);

/// The gradients that hooks and retain_grad() received, per step; undefined where there is none.
struct Seen {
  Tensors hooked, retained;
};

/// Returns the values of all steps. The hooks write to seen->hooked during backward, so `seen` must
/// exist until then; it may be null.
std::vector<Tensors> forward(const Program& program, const Tensors& leaves, const Way& way,
                             Seen* seen = nullptr);

/// The outputs that require grad, and their gradients: constants that depend only on the shape,
/// step and index of the output.
struct Roots {
  Tensors outputs, gradients;
};
Roots roots(const Program& program, const std::vector<Tensors>& values);
/// Returns the sum of the roots, each times its gradient, or an undefined tensor if there are none.
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
