#include "examples/support/cli.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

namespace gradus {
namespace {

int report(const std::string& name, std::string message) {
  // One line, and nothing that a terminal would obey.
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  std::ranges::replace_if(message, is_control, ' ');
  if (!message.starts_with(name + ": ")) message = name + ": " + message;
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

}  // namespace

int run_program(const std::string& name, int argc, char** argv,
                const std::function<int(int, char**)>& program) {
  // A write beyond the limit on a file's size then fails as other writes do.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = program(argc, argv);
    if ((std::fflush(stdout) == 0 && !std::ferror(stdout)) || status != 0) return status;
    return report(name, std::string("cannot write the output: ") + std::strerror(errno));
  } catch (const std::bad_alloc&) {
    return report(name, "out of memory");
  } catch (const std::exception& e) {
    return report(name, e.what());
  }
}

}  // namespace gradus
