#pragma once
// Shrinks a program that fails a check.

#include "tests/random_programs/checks.h"

namespace gradus::programs {

/// Returns a smaller program that fails the same check: with fewer ops, smaller shapes or simpler
/// inputs. If none is found, returns the program itself.
Program shrunk(const Program& program, const Check& check);

}  // namespace gradus::programs
