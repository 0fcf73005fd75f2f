#pragma once
// Reads files that may be compressed with gzip. Internal: no public header includes this file.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gradus/core/files/open_file.h"

namespace gradus::internal {

/// A file that is read sequentially. It is decompressed on the fly if its first two bytes are
/// gzip's (RFC 1952; consecutive members are concatenated). Error messages begin with `context`. If
/// decompression fails, they also name the offset in the compressed file.
class PackedFile {
 public:
  PackedFile(std::string context, const std::string& path);
  ~PackedFile();

  bool is_packed() const { return inflater_ != nullptr; }
  /// Returns the number of bytes that read() returns in total. For a compressed file this is an
  /// upper bound.
  uint64_t most() const;
  /// Reads n bytes, or fewer at the end of the file, and returns the number of bytes read. Throws
  /// Error if a compressed file is damaged. A call that returns fewer than n bytes has verified the
  /// last checksum of a compressed file and that no other data follow it; earlier calls may not
  /// have.
  size_t read(void* to, size_t n);

 private:
  struct Inflater;
  size_t inflate(uint8_t* to, size_t n);
  std::string context_;
  File file_;
  uint64_t size_;
  std::unique_ptr<Inflater> inflater_;  // null for a plain file
};

/// Returns `path`, or `path`.gz if only that file exists.
std::string plain_or_packed(const std::string& path);

}  // namespace gradus::internal
