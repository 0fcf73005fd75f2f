#pragma once
// The checks of random programs. A program's seed selects the checks that the program must pass.

#include <functional>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// A check. run() throws Error, or any other exception, if the program fails the check.
struct Check {
  std::string name;
  void (*run)(const Program& program);
  double share = 1;  ///< fraction of the programs that it runs on; ignored for `split` programs
};

const std::vector<Check>& all_checks();

/// Runs a check on a program. Returns the message of the failure, or "" if the program passes.
std::string failure_of(const Check& check, const Program& program);

/// Runs the checks that the program's seed selects, or only the check named "threads" if the
/// program is `split`. Returns the first check that fails and sets `message`, or returns null.
const Check* failing_check(const Program& program, std::string& message);

/// Returns a reference to the counter of derivatives that central differences could not measure
/// accurately.
int64_t& unmeasured();

}  // namespace gradus::programs
