#pragma once
// Calls ops with one wrong argument or option, and checks that they throw Error.

#include <string>

namespace gradus::programs {

/// Calls an op or an in-place method, chosen by `seed`, with one fault in its arguments or options.
/// Returns "" if the call throws Error without changing anything. Also returns "" if the call
/// succeeds and the fault is one that the op may accept. Otherwise returns a description of the
/// problem. A call that takes more than 2 seconds or throws after large allocations is also a
/// problem, and so is an error message of fewer than 8 characters.
std::string wrong_call(uint64_t seed);

}  // namespace gradus::programs
