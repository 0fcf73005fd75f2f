#pragma once
#include <string>

#include "gradus/core/files/named_tensors.h"

namespace gradus {

/// The name of the first tensor that holds NaN or an infinity; empty if none does.
std::string first_not_finite(const NamedTensors& tensors);

}  // namespace gradus
