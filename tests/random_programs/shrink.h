#pragma once
// Shrinks a program that fails a check.

#include "tests/random_programs/checks.h"

namespace gradus::programs {

/// A smaller program that fails the same check: fewer ops, smaller shapes, simpler inputs.
Program shrunk(const Program& program, const Check& check);

}  // namespace gradus::programs
