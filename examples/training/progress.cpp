#include "examples/training/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "examples/support/text.h"

namespace gradus {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double terminal_period = 0.1, plain_period = 5;  // seconds between two prints

}  // namespace

Progress::Progress(int64_t done, int64_t total, int64_t items_per_step, std::string items)
    : first_(done),
      total_(total),
      items_per_step_(items_per_step),
      items_(std::move(items)),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      last_update_(Clock::now()),
      last_print_(last_update_) {}

Progress::~Progress() {
  if (line_open_) std::putchar('\n');
  std::fflush(stdout);
}

bool Progress::due() {
  const Clock::time_point now = Clock::now();
  if (Seconds(now - last_print_).count() < (terminal_ ? terminal_period : plain_period))
    return false;
  last_print_ = now;
  return true;
}

void Progress::show(const std::string& line, bool stays) {
  // \r moves to the start of the line, ESC [ K clears it.
  std::printf(terminal_ ? "\r%s\033[K" : "%s\n", line.c_str());
  if (terminal_ && stays) std::putchar('\n');
  std::fflush(stdout);
  line_open_ = terminal_ && !stays;
}

void Progress::update(int64_t step, double loss, double seconds_besides) {
  const Clock::time_point now = Clock::now();
  const double took = Seconds(now - last_update_).count();
  training_seconds_ += took;
  // Averages all steps at first, then about the last 20.
  const double weight = std::max(0.05, 1 / static_cast<double>(step - first_));
  step_seconds_ = std::max(1e-9, step_seconds_ + weight * (took - step_seconds_));
  last_update_ = now;
  if (!due() && step < total_) return;
  const double mean = training_seconds_ / static_cast<double>(step - first_);
  const double left = mean * static_cast<double>(total_ - step) + seconds_besides;
  char text[160];
  std::snprintf(
      text, sizeof text, "step %lld/%lld  loss %.4f  %s %s/s  %s left",
      static_cast<long long>(step), static_cast<long long>(total_), loss,
      with_commas(static_cast<int64_t>(static_cast<double>(items_per_step_) / step_seconds_))
          .c_str(),
      items_.c_str(), as_clock(left).c_str());
  show(text, false);
}

void Progress::part(const std::string& what, int64_t done, int64_t total) {
  if (terminal_ && due()) show(what + ": " + std::to_string(100 * done / total) + '%', false);
}

void Progress::note(const std::string& line) {
  show(line, true);
  go_on();
}

}  // namespace gradus
