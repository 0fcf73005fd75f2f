#pragma once
// Calls that must throw Error.

#include <string>

namespace gradus::programs {

/// Makes the wrong call that `seed` determines: a call of an op with one fault in its arguments or
/// options. Returns a description of the problem if the call was not rejected properly, else an
/// empty string.
std::string wrong_call(uint64_t seed);

}  // namespace gradus::programs
