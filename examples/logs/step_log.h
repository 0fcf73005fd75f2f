#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "examples/pictures/plot.h"

namespace gradus {

/// The loss curve of any number of steps, in bounded memory. The steps, numbered from 1, are split
/// into at most 2,000 groups of equal size, a power of two that grows with the run. Only sums over
/// groups are stored.
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
    double seconds;  ///< time that the run has taken so far, without pauses
  };
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  /// Prepares the file for a run that is resumed at `step`: removes the rows after `step`, and a
  /// truncated last row. Leaves a file unchanged that is missing or cannot be read. Accepts a file
  /// that contains only the header or, at step 0, only the start of the header. Otherwise throws
  /// Error if the first line is not the header, if a row up to `step` does not begin with a step
  /// number, if the last row is before `step`, or if the file cannot be written.
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
