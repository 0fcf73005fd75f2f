#pragma once
// Generates random programs.

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Returns the random program of this seed, with at most 60 ops. Its values are finite and of
/// moderate size, and no input of an op is close to a point where the op is not smooth. A step that
/// would violate this is discarded, and another one is drawn.
Program generate(uint64_t seed);

/// How often generate() added an op to a program (kept), discarded it because its arguments or
/// values did not fit (unfit), or caught an Error from it (refused).
struct Drawn {
  int64_t kept = 0, unfit = 0, refused = 0;
  std::string message;  ///< message of the last Error
};
/// Returns the counts of all calls of generate() so far: one Drawn per op, in the order of
/// all_ops() (ops.h).
const std::vector<Drawn>& drawn();

}  // namespace gradus::programs
