#pragma once
// The folder of a training run: who may write to it, and what an earlier run left there.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gradus/models/folder/checkpoint.h"

namespace gradus {

/// A folder that one process at a time may train in.
class RunFolder {
 public:
  /// `files`: what a run writes into it, the checkpoint first; `made_again`: what else, which its data
  /// can be made into again. Nothing is touched yet.
  RunFolder(std::string path, std::vector<std::string> files,
            std::vector<std::string> made_again = {})
      : path_(std::move(path)), files_(std::move(files)), made_again_(std::move(made_again)) {}
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Locks the folder until this process ends, if there is one, and ends what a killed run was about
  /// in replace_checkpoint(). Throws Error if another process has locked it or it can't be written.
  void lock();
  /// Makes the folder, if need be, and locks it.
  void make();
  /// Throws Error if what was locked has been moved away or removed: another run's folder may lie
  /// there now.
  void expect_in_place() const;
  /// Throws Error, saying how far it is, if a run lies here.
  void expect_no_run();
  /// The run's checkpoint; where it can't be read the one before it, and `note` then says why. Throws
  /// Error, saying what can be done, if there is none that can be read.
  models::Checkpoint load_checkpoint(std::string& note);
  /// Calls write(), which writes a checkpoint. The one that is there becomes the one before it (where
  /// the file system has hard links), unless it could not be read. Until the new one is complete the
  /// one before stays as it is.
  void replace_checkpoint(const std::function<void()>& write);
  /// Removes what killed runs left of files that they were writing.
  void remove_leftovers() const;
  /// Removes an earlier run, its checkpoint first.
  void remove_run();

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& file) const { return path_ + '/' + file; }
  std::string checkpoint() const { return *this / files_.front(); }
  /// NAME.previous.safetensors: the checkpoint before that.
  std::string previous_checkpoint() const;

 private:
  std::string coming_previous() const { return previous_checkpoint() + ".tmp"; }
  void settle_previous() const;

  std::string path_;
  std::vector<std::string> files_, made_again_;
  int fd_ = -1;
  bool is_good_ = false;  // the checkpoint there is
};

/// What a checkpoint says about its run.
using Metadata = std::map<std::string, std::string>;
/// The text, whole number >= 0, finite number or number of seconds >= 0 under `key`. Throws Error,
/// opening with `where`, if it is missing or something else.
const std::string& stored_text(const Metadata& metadata, const std::string& key,
                               const std::string& where);
int64_t stored_count(const Metadata& metadata, const std::string& key, const std::string& where);
double stored_number(const Metadata& metadata, const std::string& key, const std::string& where);
double stored_seconds(const Metadata& metadata, const std::string& key, const std::string& where);

}  // namespace gradus
