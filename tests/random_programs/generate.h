#pragma once
// Draws random programs.

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// The program of this seed: 3 to 60 ops. Its values are finite and of moderate size, and none lies
/// where an op that it feeds is not smooth. Options or inputs that would not do are drawn again.
Program generate(uint64_t seed);

/// How often each op was drawn and put into a program, and how often it threw on what it was given.
struct Drawn {
  int64_t kept = 0, unfit = 0, refused = 0;
  std::string message;  ///< of the last Error
};
const std::vector<Drawn>& drawn();

}  // namespace gradus::programs
