#pragma once
// Loading the state of modules and optimisers from named tensors.

#include "gradus/core/files/safetensors.h"

namespace gradus {

/// Copies each tensor of `state` into the tensor of that name in `target`. For a tensor that has
/// several names in `target`, one of them suffices. Unless all names, shapes and dtypes match,
/// changes nothing and throws one Error, its message opening with `op`, that lists every name that
/// is missing, unexpected, given twice, or whose tensor has another shape or dtype. If `strict` is
/// false, missing and unexpected names are allowed. `state` may share memory with `target`: it is
/// read as it was before the call.
void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict = true);

}  // namespace gradus
