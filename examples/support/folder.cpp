#include "examples/support/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "gradus/core/runtime/error.h"

namespace gradus {

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  core::check(!error, "cannot create the folder ", path, ": ", error.message());
}

void make_folder_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (!folder.empty()) make_folder(folder.string());
}

void append_to_file(const std::string& path, const std::string& head, std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const bool is_empty = fd >= 0 && ::lseek(fd, 0, SEEK_END) == 0;
  if (is_empty) bytes.insert(0, head);
  const size_t whole = bytes.size();
  bool ok = fd >= 0;
  while (ok && !bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) bytes.erase(0, static_cast<size_t>(written));
    ok = written >= 0 || errno == EINTR;
  }
  ok = ok && ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (is_empty && bytes.size() == whole)
    bytes.erase(0, head.size());  // the next call adds it again
  core::check(ok, "cannot write ", path, ": ", std::strerror(reason));
}

}  // namespace gradus
