#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "examples/pictures/plot.h"

namespace gradus {

/// The loss curve of a run of any length, in bounded memory. Steps, numbered from 1, are split into
/// groups of equal size, and only the sums over each group are stored. The size is a power of two
/// that grows with the run, so that there are at most 2,000 groups.
class LossCurve {
 public:
  void add(int64_t step, double loss);
  /// Returns a point for each group that has steps: the mean step and the mean loss.
  Series series() const;

 private:
  struct Group {
    double steps = 0, losses = 0;  // sums
    int64_t count = 0;
  };
  std::vector<Group> groups_;
  int64_t size_ = 1;  // number of steps per group
};

/// A CSV file with one row per training step. Rows stay in memory until flush().
class StepLog {
 public:
  struct Row {
    int64_t step;
    double loss, lr, grad_norm;
    double seconds;  ///< duration of the run so far, without the user's pauses
  };
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  /// Prepares the file for a run that resumes at `step`: removes the rows after `step` and a
  /// truncated last row, and adds the other rows to curve(). Does nothing if the file is missing or
  /// cannot be read. Throws Error if the first line is not the header, if a row up to `step` does
  /// not begin with a step number, if the last row is before `step`, or if the file cannot be
  /// written. A file that contains only the header is accepted for every `step`. A file that is
  /// empty or ends within the header is accepted if `step` is 0.
  void cut_after(int64_t step);
  void add(const Row& row);
  /// Returns the losses of all steps, including those of rows that cut_after kept in the file.
  const LossCurve& curve() const { return curve_; }
  /// Appends the rows added since the last flush() to the file, and syncs the file to disk. Throws
  /// Error on failure.
  void flush();

 private:
  std::string path_, rows_;
  LossCurve curve_;
};

}  // namespace gradus
