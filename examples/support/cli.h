#pragma once
// Error reporting for command-line programs.

#include <functional>
#include <string>

namespace gradus {

/// Runs `program` and returns its exit status. If `program` throws, or if it returns 0 but its
/// output to stdout could not be written, prints one line `name: error` to stderr and returns 1.
int run_program(const std::string& name, int argc, char** argv,
                const std::function<int(int argc, char** argv)>& program);

}  // namespace gradus
