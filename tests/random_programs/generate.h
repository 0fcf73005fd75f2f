#pragma once
// Generates random programs.

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Returns the program of this seed, with at most 60 ops. Its values are finite and of moderate
/// size, and no input of an op is close to a point where the op is not smooth: steps that do not
/// satisfy this are drawn again.
Program generate(uint64_t seed);

/// How often an op was added to a program (kept), had no suitable arguments or values (unfit), or
/// threw Error (refused).
struct Drawn {
  int64_t kept = 0, unfit = 0, refused = 0;
  std::string message;  ///< message of the last Error
};
/// Returns the counts of all calls of generate() so far, one per op of all_ops() (ops.h).
const std::vector<Drawn>& drawn();

}  // namespace gradus::programs
