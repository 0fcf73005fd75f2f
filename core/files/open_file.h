#pragma once
// Open files and mappings.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace gradus::internal {

/// A buffered file, closed on destruction. Error messages open with `context`: the operation and
/// the path.
class File {
 public:
  /// Opens the file with the `flags` of open(2), such as O_RDONLY.
  File(std::string context, const std::string& path, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return ::fileno(file_); }
  /// If `ok` is false, throws Error with the reason for the last system call's failure (errno).
  void succeeded(bool ok) const;
  /// The size in bytes. Throws Error unless this is a regular file.
  uint64_t size() const;
  /// Reads up to n bytes, fewer only at the end of the file; returns how many.
  size_t read(void* to, size_t n);
  /// Reads n bytes. Throws Error if there are fewer.
  void read_exactly(void* to, size_t n);
  void write(const void* from, size_t n);
  /// Moves to the first byte.
  void rewind();
  /// Flushes all writes to disk.
  void sync();

 private:
  std::string context_;
  std::FILE* file_ = nullptr;
};

/// A file mapped into memory: pages are read on first access, and writes do not reach the file.
class Mapping {
 public:
  explicit Mapping(const File& file);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const uint64_t bytes;
  std::byte* data = nullptr;
};

/// As write_file_atomically, but fill(file) writes the content. Error messages open with `op`.
void replace_file(const char* op, const std::string& path, const std::function<void(File&)>& fill);

}  // namespace gradus::internal
