#pragma once
#include <cstdint>
#include <string>

#include "examples/logs/loss_log.h"
#include "examples/logs/step_log.h"

namespace gradus {

/// A log in the format that TensorBoard reads: a file of records, each with the values of a step.
/// Records stay in memory until flush().
class EventLog {
 public:
  /// The file's name, by which TensorBoard finds it.
  static constexpr const char* file_name = "events.out.tfevents.gradus";
  explicit EventLog(std::string path) : path_(std::move(path)) {}

  /// Called when a run is resumed at `step`: removes the file's records after `step`, and all from
  /// the first damaged one on. A missing file is accepted.
  void cut_after(int64_t step) const;
  /// Adds a training step's values as step/loss, step/lr and step/grad_norm.
  void add(const StepLog::Row& row);
  /// Adds an estimate's values as estimate/train, estimate/validation and so on.
  void add(const LossLog::Row& row);
  /// Appends to the file the records added since the last flush(), and syncs it to disk. Throws
  /// Error on failure.
  void flush();

 private:
  void add(int64_t step, const NamedNumbers& values);

  std::string path_, records_;
};

}  // namespace gradus
