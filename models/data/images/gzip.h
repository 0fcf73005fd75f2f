#pragma once
// Reads files that may be compressed with gzip. Internal: no public header includes this file.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gradus/core/files/open_file.h"

namespace gradus::internal {

/// A file that is read sequentially. If its first two bytes are those of gzip (RFC 1952), it is
/// decompressed on the fly; the contents of consecutive gzip members are concatenated. Error
/// messages begin with `context`. If decompression fails, they also give the offset in the
/// compressed file.
class PackedFile {
 public:
  PackedFile(std::string context, const std::string& path);
  ~PackedFile();

  bool is_packed() const { return inflater_ != nullptr; }
  /// Returns the total number of bytes that read() can return. This is exact for a plain file, and
  /// an upper bound for a compressed file.
  uint64_t most() const;
  /// Reads n bytes, or fewer at the end of the file, and returns the number of bytes read. Throws
  /// Error if a compressed file is damaged. To verify a compressed file completely, read until a
  /// call returns fewer than n bytes. Only then is it certain that all checksums are correct and
  /// that no data follow the last member.
  size_t read(void* to, size_t n);

 private:
  struct Inflater;
  size_t inflate(uint8_t* to, size_t n);
  std::string context_;
  File file_;
  uint64_t size_;
  std::unique_ptr<Inflater> inflater_;  // null for a plain file
};

/// Returns `path` + ".gz" if only that file exists, and otherwise `path`.
std::string plain_or_packed(const std::string& path);

}  // namespace gradus::internal
