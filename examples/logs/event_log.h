#pragma once
#include <cstdint>
#include <string>

#include "examples/logs/loss_log.h"
#include "examples/logs/step_log.h"

namespace gradus {

/// A log in the format of TensorBoard: a file of records. The first record contains the format's
/// version, and each later record contains values of one step. Records stay in memory until
/// flush().
class EventLog {
 public:
  /// The name to give the file: TensorBoard reads only files whose names contain "tfevents".
  static constexpr const char* file_name = "events.out.tfevents.gradus";
  /// `path` is the path of the file, such as FOLDER/file_name. flush() writes to it.
  explicit EventLog(std::string path) : path_(std::move(path)) {}

  /// Prepares the file for a run that is resumed at `step`: removes the first record that is after
  /// `step` or damaged, and all later records. A missing file is accepted. Throws Error on failure.
  void cut_after(int64_t step) const;
  /// Adds the values of a training step as step/loss, step/lr and step/grad_norm.
  void add(const StepLog::Row& row);
  /// Adds the losses of an estimate as estimate/train and estimate/validation, and each other score
  /// as estimate/NAME.
  void add(const LossLog::Row& row);
  /// Appends the records added since the last flush() to the file, and syncs the file to disk.
  /// Throws Error on failure.
  void flush();

 private:
  void add(int64_t step, const NamedNumbers& values);

  std::string path_, records_;
};

}  // namespace gradus
