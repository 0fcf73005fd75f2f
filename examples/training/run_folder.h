#pragma once
// The folder of a training run: locking, checkpoints, and the remains of an earlier run.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gradus/models/folder/checkpoint.h"

namespace gradus {

/// A folder that one process at a time may train in.
class RunFolder {
 public:
  /// `files`: names of the files that a run writes, the checkpoint first. `recreatable`: names of
  /// further ones that can be recreated from the data. Touches no file yet.
  RunFolder(std::string path, std::vector<std::string> files,
            std::vector<std::string> recreatable = {})
      : path_(std::move(path)), files_(std::move(files)), recreatable_(std::move(recreatable)) {}
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Locks the folder, if it exists, until this process ends, and completes an interrupted
  /// replace_checkpoint(). Throws Error if another process has locked it or it cannot be written.
  void lock();
  /// Creates the folder if needed, and locks it.
  void make();
  /// Throws Error if the locked folder has been moved or removed: its path may now be another
  /// run's.
  void expect_in_place() const;
  /// Throws Error if the folder holds a run (the message says how many steps it has done) or any
  /// file that a run writes.
  void expect_no_run();
  /// Loads the run's checkpoint or, if it cannot be read, the previous one and sets `note` to the
  /// reason. Throws Error, saying what can be done, if neither can be read.
  models::Checkpoint load_checkpoint(std::string& note);
  /// Calls write(), which writes a checkpoint. The existing one becomes the previous one (where the
  /// file system has hard links), unless it could not be read. The previous one stays untouched
  /// until the new one is complete.
  void replace_checkpoint(const std::function<void()>& write);
  /// Removes the files that killed runs left partly written.
  void remove_leftovers() const;
  /// Removes the files of an earlier run except the recreatable ones, its checkpoint first.
  void remove_run();

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& file) const { return path_ + '/' + file; }
  std::string checkpoint() const { return *this / files_.front(); }
  /// Path of the previous checkpoint, NAME.previous.safetensors if the checkpoint is
  /// NAME.safetensors.
  std::string previous_checkpoint() const;

 private:
  std::string coming_previous() const { return previous_checkpoint() + ".tmp"; }
  void settle_previous() const;

  std::string path_;
  std::vector<std::string> files_, recreatable_;
  int fd_ = -1;
  bool is_good_ = false;  // the existing checkpoint can be read
};

/// A checkpoint's metadata about its run.
using Metadata = std::map<std::string, std::string>;
/// The value under `key`, as a text, an integer >= 0, a finite number, or seconds >= 0. Throws
/// Error if it is missing or malformed; the message starts with `where`, the checkpoint's path.
const std::string& stored_text(const Metadata& metadata, const std::string& key,
                               const std::string& where);
int64_t stored_count(const Metadata& metadata, const std::string& key, const std::string& where);
double stored_number(const Metadata& metadata, const std::string& key, const std::string& where);
double stored_seconds(const Metadata& metadata, const std::string& key, const std::string& where);

}  // namespace gradus
