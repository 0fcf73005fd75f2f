#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gradus {

/// Prints the progress of a run, for example `step 500/2000  loss 1.9123  84,120 tokens/s  1:05
/// left`. On a terminal, overwrites one line. Otherwise, prints a line every few seconds.
class Progress {
 public:
  /// Starts to measure a run that has done `done` of `total` steps. Each step processes
  /// `items_per_step` items. `items` is the plural name of the items, for example "tokens".
  Progress(int64_t done, int64_t total, int64_t items_per_step, std::string items);
  /// Prints a line break if the last line can still be overwritten. Flushes stdout.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Reports that step number `step` is done, with this loss. `seconds_besides` is the time that
  /// evaluation and saving will still take in this run; it is included in the time left.
  void update(int64_t step, double loss, double seconds_besides);
  /// Reports progress of other work, called `what`: `done` of `total` parts are done. Shown only on
  /// a terminal.
  void part(const std::string& what, int64_t done, int64_t total);
  /// Prints a line that later progress does not overwrite. Excludes the time since the last call of
  /// update() from the training time.
  void note(const std::string& line);
  /// Excludes the time since the last call of update() from the training time. Called after
  /// evaluation or saving, for example.
  void go_on() { last_update_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool due();  // returns whether it is time to print
  void show(const std::string& line, bool stays);

  int64_t first_, total_, items_per_step_;
  std::string items_;
  bool terminal_;
  bool line_open_ = false;
  Clock::time_point last_update_, last_print_;
  double training_seconds_ = 0;  // without evaluation and saving
  double step_seconds_ = 0;      // running average of the time per step
};

}  // namespace gradus
