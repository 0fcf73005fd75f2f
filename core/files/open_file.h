#pragma once
// Buffered files, files mapped into memory, and atomic replacement of files.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace gradus::internal {

/// A buffered file. Each operation throws Error if it fails, with a message that begins with
/// `context`, for example "read_file: a.txt: ". The destructor writes the data that is still
/// buffered and closes the file, but ignores errors: call sync() first to see them.
class File {
 public:
  /// Opens the file at `path`. `flags` are those of open(2). With O_RDONLY, the file can only be
  /// read; with other flags, it can only be written.
  File(std::string context, const std::string& path, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return ::fileno(file_); }
  /// Throws Error if `ok` is false. `ok` states whether the preceding system call succeeded. The
  /// message ends with the text for errno.
  void succeeded(bool ok) const;
  /// Returns the size in bytes. Throws Error unless this is a regular file.
  uint64_t size() const;
  /// Reads n bytes, or fewer if the file ends first. Returns the number of bytes read.
  size_t read(void* to, size_t n);
  /// Reads n bytes. Throws Error if the file ends first.
  void read_exactly(void* to, size_t n);
  void write(const void* from, size_t n);
  /// Moves the position back to the first byte.
  void rewind();
  /// Flushes all writes to disk.
  void sync();

 private:
  std::string context_;
  std::FILE* file_ = nullptr;
};

/// A file mapped into memory. Pages are read from the file on first access. Writes to the memory do
/// not change the file. `data` is null if the file is empty.
class Mapping {
 public:
  explicit Mapping(const File& file);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const uint64_t bytes;
  std::byte* data = nullptr;
};

/// Replaces the file at `path` with what fill(file) writes. Like write_file_atomically(), leaves
/// the file unchanged if an error occurs. Error messages begin with `op`.
void replace_file(const char* op, const std::string& path, const std::function<void(File&)>& fill);

}  // namespace gradus::internal
