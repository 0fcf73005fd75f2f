#pragma once
// What every program must satisfy.

#include <functional>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// A check: throws Error, or any other exception, if the program fails it.
struct Check {
  std::string name;
  void (*run)(const Program& program);
  double share = 1;  ///< the part of programs that it is run on; the seed decides
};

const std::vector<Check>& all_checks();

/// Runs a check; returns what is wrong, or an empty string.
std::string failure_of(const Check& check, const Program& program);

/// Runs each check whose turn it is on the program: returns the first that fails, or null.
const Check* failing_check(const Program& program, std::string& message);

/// How many programs had a derivative that central differences could not measure.
int64_t& unmeasured();

}  // namespace gradus::programs
