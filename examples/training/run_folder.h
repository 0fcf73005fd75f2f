#pragma once
// The folder of a training run: its lock, its checkpoints, and the files of an earlier run.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gradus/models/folder/checkpoint.h"

namespace gradus {

/// A folder in which one process at a time may train.
class RunFolder {
 public:
  /// Makes the object without accessing any file. `files` are the names of the files that a run
  /// writes, the checkpoint first. `recreatable` are the names of files that a run can recreate
  /// from its data, for example the tokens of a text. remove_run() keeps the `recreatable` files.
  RunFolder(std::string path, std::vector<std::string> files,
            std::vector<std::string> recreatable = {})
      : path_(std::move(path)), files_(std::move(files)), recreatable_(std::move(recreatable)) {}
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Locks the folder until this object is destroyed. If the folder does not exist, does nothing.
  /// If its file system has no locks, continues without a lock. Completes a replace_checkpoint()
  /// that was interrupted. Throws Error if the folder cannot be opened, is locked by another
  /// process, or is not writable.
  void lock();
  /// Creates the folder if needed, and locks it.
  void make();
  /// Throws Error if the folder was moved or removed after lock(), because path() may now be the
  /// folder of another run.
  void expect_in_place() const;
  /// Throws Error if the folder contains a run or any file that a run writes. For a run whose
  /// checkpoint can be read, the message gives the number of its steps.
  void expect_no_run();
  /// Returns the run's checkpoint. If it cannot be read, returns the previous checkpoint and sets
  /// `note` to the reason. Throws Error, which suggests what to do, if neither can be read.
  models::Checkpoint load_checkpoint(std::string& note);
  /// Calls write(), which must replace the file at checkpoint() by a new checkpoint. The replaced
  /// file becomes previous_checkpoint(), if this object has read or written it and the file system
  /// has hard links. If write() throws, the file at previous_checkpoint() is unchanged.
  void replace_checkpoint(const std::function<void()>& write);
  /// Removes partly written files of runs that were killed.
  void remove_leftovers() const;
  /// Removes the files of an earlier run, its checkpoint first. Keeps the files that a run can
  /// recreate from its data. Throws Error, naming the file, if a file cannot be removed.
  void remove_run();

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& file) const { return path_ + '/' + file; }
  std::string checkpoint() const { return *this / files_.front(); }
  /// Returns the path of the previous checkpoint: NAME.previous.safetensors if the checkpoint is
  /// NAME.safetensors.
  std::string previous_checkpoint() const;

 private:
  std::string coming_previous() const { return previous_checkpoint() + ".tmp"; }
  void settle_previous() const;

  std::string path_;
  std::vector<std::string> files_, recreatable_;
  int fd_ = -1;
  bool is_good_ = false;  // whether the existing checkpoint is known to be readable
};

/// What a checkpoint stores about its run: texts by key.
using Metadata = std::map<std::string, std::string>;
/// Return the value under `key`. stored_text() returns any text, stored_count() an integer >= 0,
/// stored_number() a finite number, and stored_seconds() a finite number >= 0. They throw Error if
/// the value is missing or is not of this form. The message begins with `where`, the path of the
/// checkpoint.
const std::string& stored_text(const Metadata& metadata, const std::string& key,
                               const std::string& where);
int64_t stored_count(const Metadata& metadata, const std::string& key, const std::string& where);
double stored_number(const Metadata& metadata, const std::string& key, const std::string& where);
double stored_seconds(const Metadata& metadata, const std::string& key, const std::string& where);

}  // namespace gradus
