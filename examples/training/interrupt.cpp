#include "examples/training/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace gradus {
namespace {

volatile std::sig_atomic_t came = 0;

void on_signal(int) {
  came = 1;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

/// These come more than once: each write to a pipe that nobody reads makes one, and both the shell
/// and the system tell that a terminal is closed.
void on_lost_output(int) { came = 1; }

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  for (const int signal : {SIGHUP, SIGPIPE})
    if (std::signal(signal, on_lost_output) == SIG_IGN) std::signal(signal, SIG_IGN);
}

bool interrupted() { return came != 0; }

}  // namespace gradus
