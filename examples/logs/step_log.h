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

  /// Called when a run is resumed at `step`: removes the file's rows after `step`, and a truncated
  /// last row. Throws Error on a malformed row up to `step`, or if the rows end before `step`; a
  /// missing file or one with only a header is accepted.
  void cut_after(int64_t step) const;
  void add(const Row& row);
  /// Appends to the file the rows added since the last flush(), and syncs it to disk. Throws Error
  /// on failure.
  void flush();

 private:
  std::string path_, rows_;
};

}  // namespace gradus
