#pragma once
#include <cstdint>
#include <string>

#include "examples/logs/loss_log.h"
#include "examples/logs/step_log.h"

namespace gradus {

/// A log file for TensorBoard: a sequence of records. The first record contains the version of the
/// format, and each later record contains values of one step. Records stay in memory until flush().
class EventLog {
 public:
  /// The file name to use. TensorBoard reads only files whose names contain "tfevents".
  static constexpr const char* file_name = "events.out.tfevents.gradus";
  /// Makes a log for the file at `path`, for example FOLDER/file_name. Accesses no file.
  explicit EventLog(std::string path) : path_(std::move(path)) {}

  /// Prepares the file for a run that resumes at `step`: truncates it before the first record that
  /// is damaged or belongs to a later step. Does nothing if the file is missing. Throws Error on
  /// failure.
  void cut_after(int64_t step) const;
  /// Adds a record of a training step: its loss, learning rate and gradient norm, with the tags
  /// step/loss, step/lr and step/grad_norm.
  void add(const StepLog::Row& row);
  /// Adds a record of an evaluation: the training and validation losses, with the tags
  /// estimate/train and estimate/validation, and the other scores, with tags estimate/NAME.
  void add(const LossLog::Row& row);
  /// Appends the records added since the last flush() to the file, and syncs the file to disk.
  /// Throws Error on failure.
  void flush();

 private:
  void add(int64_t step, const NamedNumbers& values);

  std::string path_, records_;
};

}  // namespace gradus
