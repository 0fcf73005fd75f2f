#pragma once
#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Returns a program with its values and gradients on one line of JSON, for replay_torch.py.
std::string replay_line(const Program& program);

}  // namespace gradus::programs
