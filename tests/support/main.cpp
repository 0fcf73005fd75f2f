// The main function of the tests: Catch2's, without its handlers of signals. They allocate memory,
// which hangs where the signal comes from a damaged heap. Ours only names the test.

#define CATCH_CONFIG_MAIN
#define CATCH_CONFIG_NO_POSIX_SIGNALS
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>

namespace {

std::array<char, 200> running{};  // the test's name and a line break

void on_crash(int signal) {
  constexpr char text[] = "\ncrashed in the test: ";
  const auto end = std::find(running.begin(), running.end(), '\0');
  const bool written = write(STDERR_FILENO, text, sizeof text - 1) > 0 &&
                       write(STDERR_FILENO, running.data(), size_t(end - running.begin())) > 0;
  std::signal(signal, SIG_DFL);
  std::raise(written ? signal : SIGABRT);
}

struct Names : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
      const auto before = std::signal(signal, on_crash);
      if (before != SIG_DFL) std::signal(signal, before);  // a sanitizer's, which says more
    }
  }
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    running = {};
    const auto n = static_cast<int64_t>(std::min(test.name.size(), running.size() - 2));
    *std::copy_n(test.name.begin(), n, running.begin()) = '\n';
  }
};
CATCH_REGISTER_LISTENER(Names)

}  // namespace
