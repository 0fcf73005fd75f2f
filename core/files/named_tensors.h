#pragma once
// What modules and optimisers tell each other about parameters: their names, when state is loaded,
// and the matrices in them.

#include "gradus/core/files/safetensors.h"

namespace gradus {

/// A parameter as matrices stacked along its first axis. The other axes count as one: a
/// convolution's (out, in, h, w) is the matrix (out, in h w).
struct StackedMatrices {
  Tensor param;  ///< the parameter
  /// Rows of each matrix, such as {n, n, n} of queries', keys' and values' weights (3n, dim); empty:
  /// one matrix.
  std::vector<int64_t> rows = {};
};

/// Copies each tensor of `state` into the tensor of that name in `target`. For a tensor that has
/// several names in `target`, one of them suffices. Unless all names, shapes and dtypes match,
/// changes nothing and throws one Error, its message opening with `op`, that lists every name that
/// is missing, unexpected, given twice, or whose tensor has another shape or dtype. If `strict` is
/// false, missing and unexpected names are allowed. `state` may share memory with `target`: it is
/// read as it was before the call.
void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict = true);

}  // namespace gradus
