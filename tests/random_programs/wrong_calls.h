#pragma once
// Calls that must throw.

#include <string>

namespace gradus::programs {

/// Makes the wrong call of this seed: an op's arguments or options with one fault planted. Returns
/// what is wrong with how it was refused, or an empty string.
std::string wrong_call(uint64_t seed);

}  // namespace gradus::programs
