#include "examples/training/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace gradus {
namespace {

volatile std::sig_atomic_t received = 0;

void on_signal(int) {
  received = 1;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

/// These signals arrive repeatedly: every write to a closed pipe raises one, and a closed terminal
/// is reported by both the shell and the kernel.
void on_lost_output(int) { received = 1; }

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  for (const int signal : {SIGHUP, SIGPIPE})
    if (std::signal(signal, on_lost_output) == SIG_IGN) std::signal(signal, SIG_IGN);
}

bool interrupted() { return received != 0; }

}  // namespace gradus
