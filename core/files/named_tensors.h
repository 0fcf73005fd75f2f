#pragma once
// Named tensors as a state that is saved and loaded: of modules, of optimisers.

#include "gradus/core/files/safetensors.h"

namespace gradus {

/// Copies each tensor of `state` into the tensor of that name in `target`. If a tensor stands in
/// `target` under several names, any one of them will do. Throws one Error, opening with `op`, that
/// lists every name that is missing, unexpected, given twice, or of another shape or dtype; then
/// nothing has been changed. Unless `strict`, missing and unexpected names pass. The state may
/// share memory with the targets: it is as it was when the call began.
void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict = true);

}  // namespace gradus
