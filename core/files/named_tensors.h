#pragma once
// Used by both modules and optimisers: load_named, which copies tensors by name, and
// StackedMatrices, which describes the matrices that a parameter contains.

#include "gradus/core/files/safetensors.h"

namespace gradus {

/// A parameter as matrices stacked along its first axis. The parameter's other axes are merged into
/// one: a convolution's weight (out, in, h, w) is the matrix (out, in * h * w).
struct StackedMatrices {
  Tensor param;  ///< the parameter
  /// The number of rows of each matrix, for example {n, n, n} for a weight (3n, dim) that stacks
  /// the weights of queries, keys and values. If empty, the parameter is one matrix.
  std::vector<int64_t> rows = {};
  /// The number of attention heads in each matrix, for example {H, Hk, Hk} for the weights of H
  /// query heads and of Hk key and value heads. If empty, no matrix consists of heads.
  std::vector<int64_t> heads = {};
};

/// Copies each tensor of `state` into the tensor with the same name in `target`. If a tensor has
/// several names in `target`, `state` need contain only one of them. If a name is missing,
/// unexpected or given twice, or if a tensor is undefined or has the wrong shape or dtype, changes
/// nothing and throws one Error. Its message begins with `op` and lists all problems, with at most
/// ten names per kind of problem. If `strict` is false, missing and unexpected names are ignored.
/// `state` may share memory with `target`: the values before the call are copied.
void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict = true);

}  // namespace gradus
