#include "examples/support/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gradus {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double terminal_period = 0.1, plain_period = 5;  // seconds between two prints

/// 84120 as "84,120".
std::string with_commas(int64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

/// Seconds as "1:05" or "2:01:05".
std::string as_clock(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  char text[64];
  if (s < 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

}  // namespace

Progress::Progress(int64_t done, int64_t total, int64_t tokens_per_step)
    : first_(done),
      step_(done),
      total_(total),
      tokens_per_step_(tokens_per_step),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      start_(Clock::now()),
      last_update_(start_),
      last_print_(start_) {}

Progress::~Progress() {
  if (line_open_) std::putchar('\n');
  std::fflush(stdout);
}

std::string Progress::describe(double loss) const {
  const auto done = static_cast<double>(step_ - first_);
  // All that has passed, pauses too, is what the rest will take as well.
  const double left =
      Seconds(last_update_ - start_).count() / done * static_cast<double>(total_ - step_);
  const auto rate = static_cast<int64_t>(static_cast<double>(tokens_per_step_) / step_seconds_);
  char text[160];
  std::snprintf(text, sizeof text, "step %lld/%lld  loss %.4f  %s tokens/s  %s left",
                static_cast<long long>(step_), static_cast<long long>(total_), loss,
                with_commas(rate).c_str(), as_clock(left).c_str());
  return text;
}

void Progress::update(int64_t step, double loss) {
  if (step <= step_) return;
  const Clock::time_point now = Clock::now();
  const double took = Seconds(now - last_update_).count() / static_cast<double>(step - step_);
  // The average of all steps at first, then of about the last 20.
  const double weight = std::max(0.05, 1 / static_cast<double>(step - first_));
  step_seconds_ = std::max(1e-9, step_seconds_ + weight * (took - step_seconds_));
  step_ = step;
  last_update_ = now;
  if (step < total_ &&
      Seconds(now - last_print_).count() < (terminal_ ? terminal_period : plain_period))
    return;
  last_print_ = now;
  // \r goes to the line's start, ESC [ K clears what stood there.
  std::printf(terminal_ ? "\r%s\033[K" : "%s\n", describe(loss).c_str());
  std::fflush(stdout);
  line_open_ = terminal_;
}

void Progress::note(const std::string& line) {
  std::printf(terminal_ ? "\r%s\033[K\n" : "%s\n", line.c_str());
  std::fflush(stdout);
  line_open_ = false;
  last_update_ = Clock::now();
}

}  // namespace gradus
