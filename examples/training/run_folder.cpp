#include "examples/training/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "examples/support/folder.h"
#include "examples/support/text.h"
#include "gradus/models/folder/fields.h"

namespace gradus {
namespace fs = std::filesystem;

RunFolder::~RunFolder() {
  if (fd_ >= 0) ::close(fd_);  // which unlocks it
}

void RunFolder::lock() {
  std::error_code error;
  if (fd_ >= 0 || !fs::exists(path_, error)) return;
  const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  core::check(fd >= 0, "cannot use the folder ", path_, ": ", std::strerror(errno));
  // On a file system without locks, train unlocked.
  const bool taken = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool writable = ::access(path_.c_str(), W_OK | X_OK) == 0;
  const int reason = errno;
  if (taken || !writable) ::close(fd);
  core::check(!taken, "another process is training in ", path_,
              "; wait for it to end or choose another --out");
  core::check(writable, "cannot write to the folder ", path_, ": ", std::strerror(reason));
  fd_ = fd;
  settle_previous();
}

void RunFolder::make() {
  make_folder(path_);
  lock();
}

void RunFolder::expect_in_place() const {
  if (fd_ < 0) return;
  struct stat ours, there;
  const bool found = ::stat(path_.c_str(), &there) == 0;
  core::check(found, "cannot write to the folder ", path_, ": ", std::strerror(errno));
  const bool same =
      ::fstat(fd_, &ours) == 0 && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  core::check(same, path_, " is no longer the folder of this run");
}

std::string RunFolder::previous_checkpoint() const {
  const fs::path path = checkpoint();
  return *this / (path.stem().string() + ".previous" + path.extension().string());
}

models::Checkpoint RunFolder::load_checkpoint(std::string& note) {
  std::error_code error;
  const bool is_there = fs::exists(checkpoint(), error);
  const std::string before = previous_checkpoint(), begin = "start over with --overwrite";
  core::check(is_there || fs::exists(before, error), path_,
              " holds no checkpoint (a run writes its first at step 0): ",
              fs::exists(path_, error) ? begin : "is --out right?");
  try {
    models::Checkpoint newest(checkpoint());
    is_good_ = true;
    return newest;
  } catch (const Error& e) {
    note = e.what();
  }
  if (!fs::exists(before, error)) core::fail(note, "; there is no previous checkpoint: ", begin);
  try {
    return models::Checkpoint(before);
  } catch (const Error& e) {
    core::fail(note, "; the previous one cannot be read either: ", e.what(), "; ", begin);
  }
}

void RunFolder::replace_checkpoint(const std::function<void()>& write) {
  std::error_code ignored;
  fs::remove(coming_previous(), ignored);
  if (is_good_) fs::create_hard_link(checkpoint(), coming_previous(), ignored);
  try {
    write();
  } catch (...) {
    fs::remove(coming_previous(), ignored);
    throw;
  }
  settle_previous();
  is_good_ = true;
}

/// If a new checkpoint has replaced the old one, moves the old one to the previous checkpoint's
/// path.
void RunFolder::settle_previous() const {
  std::error_code error;
  if (!fs::exists(coming_previous(), error)) return;
  if (!fs::equivalent(coming_previous(), checkpoint(), error))
    fs::rename(coming_previous(), previous_checkpoint(), error);
  fs::remove(coming_previous(), error);  // rename() does nothing if both are the same file
}

void RunFolder::expect_no_run() {
  const char* const choices = ": --resume continues it, --overwrite starts over";
  std::error_code error;
  if (fs::exists(checkpoint(), error) || fs::exists(previous_checkpoint(), error)) {
    std::string steps, note;
    try {
      steps = stored_text(load_checkpoint(note).metadata(), "step", "");
    } catch (const Error&) {
      core::fail(path_, " holds a run whose checkpoint cannot be read: --overwrite starts over");
    }
    core::fail(path_, " holds a run that has done ", steps.substr(0, 20), " steps", choices);
  }
  for (const std::string& file : files_)
    core::check(!fs::exists(*this / file, error), path_, " holds ", file,
                ": --overwrite replaces it");
}

void RunFolder::remove_leftovers() const {
  std::vector<std::string> files = files_;
  files.insert(files.end(), recreatable_.begin(), recreatable_.end());
  std::error_code error;
  for (const char* folder : {"", "best/", "ema/"})
    for (const auto& entry : fs::directory_iterator(*this / folder, error)) {
      const std::string name = folder + entry.path().filename().string();
      // Temporary files: FILE.tmp, and FILE.tmp123-4 of earlier versions.
      const size_t at = name.find(".tmp");
      if (at == std::string::npos ||
          name.find_first_not_of("0123456789-", at + 4) != std::string::npos)
        continue;
      if (std::find(files.begin(), files.end(), name.substr(0, at)) != files.end())
        fs::remove(entry.path(), error);
    }
}

void RunFolder::remove_run() {
  is_good_ = false;
  for (const std::string& file : files_) {
    std::error_code error;
    fs::remove(*this / file, error);
    core::check(!error, "cannot remove ", *this / file, ": ", error.message());
  }
  std::error_code not_empty;
  for (const char* folder : {"best", "ema"}) fs::remove(*this / folder, not_empty);
}

// ---- metadata ----

const std::string& stored_text(const Metadata& metadata, const std::string& key,
                               const std::string& where) {
  const auto found = metadata.find(key);
  core::check(found != metadata.end(), where, ": not a run's checkpoint: it lacks \"", key, '"');
  return found->second;
}

int64_t stored_count(const Metadata& metadata, const std::string& key, const std::string& where) {
  const std::string& text = stored_text(metadata, key, where);
  const auto count = models::parse_number<int64_t>(text);
  core::check(count && *count >= 0, where, ": expected a whole number for \"", key, "\", got ",
              shown(text));
  return *count;
}

double stored_number(const Metadata& metadata, const std::string& key, const std::string& where) {
  const std::string& text = stored_text(metadata, key, where);
  const auto number = models::parse_number<double>(text);
  core::check(number.has_value(), where, ": expected a number for \"", key, "\", got ",
              shown(text));
  return *number;
}

double stored_seconds(const Metadata& metadata, const std::string& key, const std::string& where) {
  const double seconds = stored_number(metadata, key, where);
  core::check(seconds >= 0, where, ": expected seconds for \"", key, "\", got ", seconds);
  return seconds;
}

}  // namespace gradus
