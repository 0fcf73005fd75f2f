#pragma once
// Wrong calls: calls with one fault, which must throw Error or, for some faults, may be accepted.

#include <string>

namespace gradus::programs {

/// Makes the wrong call that `seed` determines: a call of an op or of an in-place method with one
/// fault in its arguments or options. The call must throw Error and change nothing, unless the op
/// may accept the fault. Returns a description of the problem, or an empty string if there is none.
std::string wrong_call(uint64_t seed);

}  // namespace gradus::programs
