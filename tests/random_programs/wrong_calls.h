#pragma once
// Calls ops with one wrong argument or option, and checks that they throw Error.

#include <string>

namespace gradus::programs {

/// Calls an op or an in-place method, chosen by `seed`, with one fault in its arguments or options.
/// Returns "" if the call throws Error without changing anything, or if the op may accept the fault
/// and does. Otherwise returns a description of the problem. A call that takes more than 2 seconds
/// or that throws after large allocations is a problem, too.
std::string wrong_call(uint64_t seed);

}  // namespace gradus::programs
