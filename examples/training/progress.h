#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gradus {

/// How far a training run is, on stdout: `step 500/2000  loss 1.9123  84,120 tokens/s  1:05 left`.
/// On a terminal one line that is rewritten, else a line every few seconds.
class Progress {
 public:
  /// `done` of `total` steps are behind us; each takes in `items_per_step` of `items` ("tokens").
  Progress(int64_t done, int64_t total, int64_t items_per_step, std::string items);
  /// Ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// One more step, the step-th, is done, with this loss. `seconds_besides`: how long all that is
  /// not a step (estimates, saving) will still take.
  void update(int64_t step, double loss, double seconds_besides);
  /// Something else takes its time: `done` of `total` parts of it are done.
  void part(const std::string& what, int64_t done, int64_t total);
  /// Prints a line that stays. The time since the last update is not counted as training's: whoever
  /// calls this evaluated or saved something.
  void note(const std::string& line);
  /// The time since the last update is not counted, as note's.
  void go_on() { last_update_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool due();  // whether it is time to print
  void show(const std::string& line, bool stays);

  int64_t first_, total_, items_per_step_;
  std::string items_;
  bool terminal_;
  bool line_open_ = false;
  Clock::time_point last_update_, last_print_;
  double training_seconds_ = 0;  // without pauses
  double step_seconds_ = 0;      // a running average
};

}  // namespace gradus
