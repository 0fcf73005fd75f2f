#pragma once
#include <cstdint>
#include <string>

namespace gradus {

/// A CSV file with one row per training step. Rows stay in memory until flush().
class StepLog {
 public:
  struct Row {
    int64_t step;
    double loss, lr, grad_norm;
    double seconds;  ///< since the start of the run
  };
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  /// Prepares the file for a run that is resumed at `step`: removes the rows after `step`, and a
  /// truncated last row. A missing file or one with only a header is accepted. Throws Error on a
  /// malformed row up to `step`, and if the rows end before `step`.
  void cut_after(int64_t step) const;
  void add(const Row& row);
  /// Appends the rows added since the last flush() to the file, and syncs the file to disk. Throws
  /// Error on failure.
  void flush();

 private:
  std::string path_, rows_;
};

}  // namespace gradus
