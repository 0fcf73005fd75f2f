#pragma once
// Error reporting, the same in every program.

#include <functional>
#include <string>

namespace gradus {

/// Runs `program` and returns its exit status or, if it throws, 1 after printing one line
/// `name: error` to stderr.
int run_program(const std::string& name, int argc, char** argv,
                const std::function<int(int argc, char** argv)>& program);

}  // namespace gradus
