#pragma once
// The checks that every program must pass.

#include <functional>

#include "tests/random_programs/program.h"

namespace gradus::programs {

/// A check. It throws Error, or any other exception, if the program fails it.
struct Check {
  std::string name;
  void (*run)(const Program& program);
  double share = 1;  ///< fraction of the programs that are checked; the seed decides
};

const std::vector<Check>& all_checks();

/// Runs a check. Returns the problem, or an empty string if there is none.
std::string failure_of(const Check& check, const Program& program);

/// Runs on the program each check that its seed selects, or only the check of threads if its loops
/// are split. Returns the first check that fails, or
/// null.
const Check* failing_check(const Program& program, std::string& message);

/// The number of programs with a derivative that central differences could not measure.
int64_t& unmeasured();

}  // namespace gradus::programs
