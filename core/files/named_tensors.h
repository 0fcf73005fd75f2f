#pragma once
// What modules and optimisers share about parameters: loading tensors by name, and the matrices
// that a parameter contains.

#include "gradus/core/files/safetensors.h"

namespace gradus {

/// A parameter as matrices stacked along its first axis. Its other axes are merged into one: a
/// convolution's weight (out, in, h, w) is the matrix (out, in * h * w).
struct StackedMatrices {
  Tensor param;  ///< the parameter
  /// The number of rows of each matrix, for example {n, n, n} for a weight (3n, dim) that stacks
  /// the weights of queries, keys and values. If empty, the parameter is one matrix.
  std::vector<int64_t> rows = {};
};

/// Copies each tensor of `state` into the tensor with the same name in `target`. If a tensor has
/// several names in `target`, `state` may contain just one of them. If a name is missing,
/// unexpected or given twice, or if a tensor has another shape or dtype, nothing is changed, and
/// one Error lists all these names. Its message opens with `op`. If `strict` is false, missing and
/// unexpected names are allowed. `state` may share memory with `target`: the values before the call
/// are copied.
void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict = true);

}  // namespace gradus
