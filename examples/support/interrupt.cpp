#include "examples/support/interrupt.h"

#include <csignal>

namespace gradus {
namespace {

volatile std::sig_atomic_t came = 0;

void on_signal(int) {
  came = 1;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() { return came != 0; }

}  // namespace gradus
