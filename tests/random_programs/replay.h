#pragma once
#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Returns one line of JSON with the program, its values and its gradients, for replay_torch.py.
std::string replay_line(const Program& program);

}  // namespace gradus::programs
