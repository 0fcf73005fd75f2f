#pragma once
// Integer division that rounds up. Internal: no public header includes this file.

#include <cstdint>

namespace gradus::internal {

/// Returns a / b rounded up, for a >= 0 and b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace gradus::internal
