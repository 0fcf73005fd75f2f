#pragma once
#include <string>

#include "gradus/core/files/named_tensors.h"

namespace gradus {

/// Returns the name of the first tensor that contains a NaN or an infinity, or "" if none does.
/// Skips undefined tensors and tensors of other dtypes than float32 and float64.
std::string first_not_finite(const NamedTensors& tensors);

}  // namespace gradus
