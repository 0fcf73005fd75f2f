#pragma once
#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Runs the program, with no gradients before backward. Returns one line of JSON for
/// replay_torch.py: the program, its values, its gradients and the constant factors in its loss.
std::string replay_line(const Program& program);

}  // namespace gradus::programs
