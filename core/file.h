#pragma once
// Files: read, or replaced as a whole.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace gradus {

/// The whole content of a file. Throws Error naming it if it cannot be read.
std::string read_file(const std::string& path);

/// Writes `bytes` to `path` as replace_file does.
void write_file_atomically(const std::string& path, const std::string& bytes);

/// An open file, buffered, that closes itself. Its errors open with `context`: the operation and
/// the path.
class File {
 public:
  /// `flags` as open(2) takes them.
  File(std::string context, const std::string& path, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return ::fileno(file_); }
  /// Throws Error with the reason why the last system call failed, unless it succeeded.
  void succeeded(bool ok) const;
  /// The file's size. Throws Error if it is a directory, a pipe or the like.
  uint64_t size() const;
  /// Reads up to n bytes; fewer only at the end of the file.
  size_t read(void* to, size_t n);
  /// Throws Error if there are fewer.
  void read_exactly(void* to, size_t n);
  void write(const void* from, size_t n);
  /// Goes on at the file's first byte.
  void rewind();
  /// Waits until all that was written is on the disk.
  void sync();

 private:
  std::string context_;
  std::FILE* file_ = nullptr;
};

/// Writes a new file with fill(file) and puts it in the place of `path`, which after an Error or a
/// crash is as before or complete. The new file is called `path`.tmp until it is whole and on the
/// disk. Writers of one path, threads or processes, take turns; what a killed one left, the next
/// uses up.
void replace_file(const char* op, const std::string& path, const std::function<void(File&)>& fill);

}  // namespace gradus
