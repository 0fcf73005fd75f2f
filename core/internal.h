#pragma once
// Lets the library's own .cpp files use the names of core:: (check, record, empty, ...) and of
// internal:: without a prefix. No public header includes this file.

#include "gradus/core/tensor/checks.h"

namespace gradus {
namespace core {}
namespace internal {}
using namespace core;
using namespace internal;
}  // namespace gradus
