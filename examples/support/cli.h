#pragma once
// The frame of every program: flags and errors.

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace gradus {

/// Runs `program` and returns the process's exit status: the program's own or, if it throws, 1,
/// with one line `name: what is wrong` on stderr.
int run_program(const std::string& name, int argc, char** argv,
                const std::function<int(int argc, char** argv)>& program);

/// Parses the command line inside run_program. Flags that are wrong make the program end with one
/// line on stderr and status 1, --help with the help on stdout and status 0.
void parse_flags(CLI::App& app, int argc, char** argv);

}  // namespace gradus
