#include "gradus/core/files/open_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"

namespace gradus::internal {

File::File(std::string context, const std::string& path, int flags) : context_(std::move(context)) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  succeeded(fd >= 0);
  file_ = ::fdopen(fd, (flags & O_ACCMODE) == O_RDONLY ? "r" : "w");
  if (!file_) ::close(fd);
  succeeded(file_);
}

File::~File() { std::fclose(file_); }

void File::succeeded(bool ok) const {
  if (!ok) fail(context_, std::strerror(errno));
}

uint64_t File::size() const {
  struct stat info;
  succeeded(::fstat(descriptor(), &info) == 0);
  check(S_ISREG(info.st_mode), context_, "not a regular file");
  return static_cast<uint64_t>(info.st_size);
}

size_t File::read(void* to, size_t n) {
  const size_t got = std::fread(to, 1, n, file_);
  succeeded(!std::ferror(file_));
  return got;
}

void File::read_exactly(void* to, size_t n) {
  check(read(to, n) == n, context_, "the file was truncated while it was read");
}

void File::write(const void* from, size_t n) { succeeded(std::fwrite(from, 1, n, file_) == n); }

void File::rewind() { succeeded(std::fseek(file_, 0, SEEK_SET) == 0); }

Mapping::Mapping(const File& file) : bytes(file.size()) {
  if (bytes == 0) return;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                    file.descriptor(), 0);
  file.succeeded(at != MAP_FAILED);
  data = static_cast<std::byte*>(at);
}

Mapping::~Mapping() {
  if (data) ::munmap(data, bytes);
}

void File::sync() { succeeded(std::fflush(file_) == 0 && ::fsync(descriptor()) == 0); }

namespace {

/// Opens and truncates `temporary` once no other writer holds it; it stays locked until closed.
std::unique_ptr<File> open_in_turn(const std::string& context, const std::string& temporary) {
  for (;;) {
    // Does not follow links or wait for pipes.
    auto file =
        std::make_unique<File>(context, temporary, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
    file->size();  // it must be a regular file
    // Continues without a lock if the file system has none.
    while (::flock(file->descriptor(), LOCK_EX) != 0 && errno == EINTR) {
    }
    // The previous writer may have renamed or removed the file while we waited.
    struct stat ours, named;
    file->succeeded(::fstat(file->descriptor(), &ours) == 0);
    if (::lstat(temporary.c_str(), &named) != 0 || ours.st_dev != named.st_dev ||
        ours.st_ino != named.st_ino)
      continue;
    file->succeeded(::ftruncate(file->descriptor(), 0) == 0);
    return file;
  }
}

}  // namespace

void replace_file(const char* op, const std::string& path, const std::function<void(File&)>& fill) {
  const std::string temporary = path + ".tmp";
  const auto file =
      open_in_turn(std::string(op) + ": " + path + ": cannot write " + temporary + ": ", temporary);
  try {
    fill(*file);
    file->sync();
    const bool renamed = std::rename(temporary.c_str(), path.c_str()) == 0;
    check(renamed, op, ": ", path, ": ", std::strerror(errno));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  // The rename must reach the disk too. Errors are ignored: some directories cannot be synced.
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

}  // namespace gradus::internal
