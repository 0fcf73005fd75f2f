#pragma once
// The checks of random programs. A program's seed selects the checks that the program must pass.

#include <functional>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// A check. run() throws Error, or any other exception, if the program fails the check.
struct Check {
  std::string name;
  void (*run)(const Program& program);
  double share = 1;  ///< fraction of programs to check; ignored if Program::split is true
};

const std::vector<Check>& all_checks();

/// Runs a check on a program. Returns the message of the failure, or "" if the program passes.
std::string failure_of(const Check& check, const Program& program);

/// Runs the checks that the program's seed selects. If program.split is true, runs only the check
/// named "threads". Returns the first check that fails and stores the error in `message`. Returns
/// null if all checks pass.
const Check* failing_check(const Program& program, std::string& message);

/// Returns a global counter: the number of derivatives that were not checked because their central
/// differences were too inaccurate.
int64_t& unmeasured();

}  // namespace gradus::programs
