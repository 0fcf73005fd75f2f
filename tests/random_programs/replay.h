#pragma once
#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Returns one line of JSON with the program, its values, its gradients and the constants in its
/// loss, for replay_torch.py. Leaves have no gradients before backward.
std::string replay_line(const Program& program);

}  // namespace gradus::programs
