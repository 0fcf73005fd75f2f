#pragma once
// Files, plain or compressed with gzip. For the library's own use: no public header includes this.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gradus/core/files/open_file.h"

namespace gradus::internal {

/// A file read sequentially, decompressed on the fly if its first two bytes are gzip's (RFC 1952;
/// consecutive members are concatenated). Errors open with `context` and name the byte of the
/// compressed file at which decompression fails.
class PackedFile {
 public:
  PackedFile(std::string context, const std::string& path);
  ~PackedFile();

  bool is_packed() const { return inflater_ != nullptr; }
  /// Total number of bytes that read() returns; for a compressed file, an upper bound of it.
  uint64_t most() const;
  /// Reads n bytes, fewer only at the end of the file, and returns how many. At the end of a
  /// compressed file, the checksums have been verified and nothing follows them.
  size_t read(void* to, size_t n);

 private:
  struct Inflater;
  size_t inflate(uint8_t* to, size_t n);
  std::string context_;
  File file_;
  uint64_t size_;
  std::unique_ptr<Inflater> inflater_;  // null for a plain file
};

/// `path`, or `path`.gz if only that exists.
std::string plain_or_packed(const std::string& path);

}  // namespace gradus::internal
