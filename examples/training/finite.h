#pragma once
#include <string>

#include "gradus/core/files/named_tensors.h"

namespace gradus {

/// Returns the name of the first tensor that contains a NaN or an infinity, or "" if none does.
/// Undefined tensors are skipped.
std::string first_not_finite(const NamedTensors& tensors);

}  // namespace gradus
