#pragma once
// Files piece by piece.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace gradus::internal {

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

/// A file's bytes in memory, read as they are touched. What is written to them stays there.
class Mapping {
 public:
  explicit Mapping(const File& file);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const uint64_t bytes;
  std::byte* data = nullptr;
};

/// As write_file_atomically, with what fill(file) writes. Errors open with `op`.
void replace_file(const char* op, const std::string& path, const std::function<void(File&)>& fill);

}  // namespace gradus::internal
