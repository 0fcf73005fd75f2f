#pragma once
// The checks of random programs. Each program runs those that its seed selects and must pass them.

#include <functional>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// A check. run() throws Error, or any other exception, if the program fails the check.
struct Check {
  std::string name;
  void (*run)(const Program& program);
  double share = 1;  ///< fraction of the programs that it checks; ignored for `split` programs
};

const std::vector<Check>& all_checks();

/// Runs a check. Returns the problem, or an empty string if there is none.
std::string failure_of(const Check& check, const Program& program);

/// Runs the checks that the program's seed selects, or only the check named "threads" if the
/// program is `split`. Returns the first check that fails and sets `message`, or returns null.
const Check* failing_check(const Program& program, std::string& message);

/// Returns a reference to the number of derivatives that central differences could not measure.
int64_t& unmeasured();

}  // namespace gradus::programs
