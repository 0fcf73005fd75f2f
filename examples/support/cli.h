#pragma once
// The frame of every program: its errors.

#include <functional>
#include <string>

namespace gradus {

/// Runs `program` and returns the process's exit status: the program's own or, if it throws, 1,
/// with one line `name: what is wrong` on stderr.
int run_program(const std::string& name, int argc, char** argv,
                const std::function<int(int argc, char** argv)>& program);

}  // namespace gradus
