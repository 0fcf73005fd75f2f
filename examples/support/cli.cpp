#include "examples/support/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>

#include "gradus/core/error.h"

namespace gradus {
namespace {

/// Thrown to end the program early, but not in error.
struct EarlyExit {};

int report(const std::string& name, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (!message.starts_with(name + ": ")) message = name + ": " + message;
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

}  // namespace

int run_program(const std::string& name, int argc, char** argv,
                const std::function<int(int, char**)>& program) {
  try {
    return program(argc, argv);
  } catch (const EarlyExit&) {
    return 0;
  } catch (const std::bad_alloc&) {
    return report(name, "out of memory");
  } catch (const std::exception& e) {
    return report(name, e.what());
  }
}

void parse_flags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success&) {  // --help
    std::fputs(app.help().c_str(), stdout);
    throw EarlyExit();
  } catch (const CLI::ParseError& e) {
    fail(e.what(), " (--help lists the flags)");
  }
}

}  // namespace gradus
