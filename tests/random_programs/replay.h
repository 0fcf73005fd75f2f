#pragma once
#include "tests/random_programs/program.h"

namespace gradus::programs {

/// Runs the program and returns one line of JSON for replay_torch.py: the program, the outputs of
/// its ops, the gradients of its leaves and the constant factors in its loss. Ignores
/// Leaf::has_grad: no leaf has a gradient before backward.
std::string replay_line(const Program& program);

}  // namespace gradus::programs
