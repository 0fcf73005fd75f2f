#pragma once
// Generates random programs.

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Returns the random program that `seed` determines, with at most 60 ops. Its floating values lie
/// in [-50, 50], or in [-1000, 1000] if Program::split is true. No input of an op is close to a
/// point where the op is not smooth. If a step would violate these conditions, another one is drawn
/// instead.
Program generate(uint64_t seed);

/// Counts what happened when generate() drew an op. kept: the op was added to a program. unfit: its
/// arguments or values broke generate()'s conditions. refused: it threw an Error.
struct Drawn {
  int64_t kept = 0, unfit = 0, refused = 0;
  std::string message;  ///< message of the last Error
};
/// Returns the counts of all calls of generate() so far: one Drawn per op, in the order of
/// all_ops() (ops.h).
const std::vector<Drawn>& drawn();

}  // namespace gradus::programs
