#pragma once
#include <cstdint>
#include <string>

namespace gradus {

/// What is known of each training step, in a CSV file. Rows wait in memory until flush().
class StepLog {
 public:
  struct Row {
    int64_t step;
    double loss, lr, grad_norm;
    double seconds;  ///< since the run began
  };
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  /// Drops the file's rows after `step`, where a resumed run goes on, and a row cut short. Throws
  /// Error on a line before that which is no row, and if the rows end before `step`; there may be none.
  void cut_after(int64_t step) const;
  void add(const Row& row);
  /// Appends the rows to the file and waits until they are on the disk. Throws Error if it can't.
  void flush();

 private:
  std::string path_, rows_;
};

}  // namespace gradus
