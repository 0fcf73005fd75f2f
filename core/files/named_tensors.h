#pragma once
// Declarations that both modules and optimisers use: load_named, which copies tensors by name, and
// StackedMatrices, which describes the matrices that a parameter contains.

#include "gradus/core/files/safetensors.h"

namespace gradus {

/// Describes a parameter as one or several matrices stacked along its first axis. The other axes
/// are merged into one: a convolution's weight (out, in, h, w) is a matrix (out, in * h * w).
struct StackedMatrices {
  Tensor param;  ///< the parameter
  /// The number of rows of each matrix, for example {n, n, n} for a weight (3n, dim) that stacks
  /// the weights of queries, keys and values. If empty, the parameter is one matrix.
  std::vector<int64_t> rows = {};
  /// The number of attention heads in each matrix, for example {H, Hk, Hk} for the weights of H
  /// query heads and of Hk key and value heads. If empty, no matrix is divided into heads.
  std::vector<int64_t> heads = {};
};

/// Copies each tensor of `state` into the tensor with the same name in `target`. If a tensor has
/// several names in `target`, one of these names in `state` is enough. If `state` contains several
/// of them, their tensors must have equal elements. `state` may share memory with `target`: the
/// values before the call are copied.
///
/// Throws Error and changes nothing if a name is missing from `state`, if `state` contains a name
/// twice or a name that `target` does not contain, or if a tensor of `state` is undefined or has
/// the wrong shape or dtype. If `strict` is false, missing and additional names are ignored. The
/// message begins with `op` and lists all problems, with at most ten names per kind of problem.
/// Also throws Error and changes nothing if a tensor is bfloat16 or int8 and not contiguous, if it
/// is a sliced, reshaped or transposed view of an int8 matrix, or if a tensor of `target` is
/// expanded.
void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict = true);

/// Returns whether two tensors have the same shape and dtype, and equal elements. A NaN equals a
/// NaN.
bool has_equal_elements(const Tensor& a, const Tensor& b);

}  // namespace gradus
