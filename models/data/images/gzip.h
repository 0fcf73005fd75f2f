#pragma once
// Files that may be packed by gzip. For the library's own use: no public header includes this.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "gradus/core/files/open_file.h"

namespace gradus::internal {

/// A file read from its first byte on; unpacked on the way if its first two bytes say that it is
/// gzip's (RFC 1952; several members in a row are one content). Errors open with `context`, and
/// name the byte of the packed file from which it cannot be unpacked.
class PackedFile {
 public:
  PackedFile(std::string context, const std::string& path);
  ~PackedFile();

  bool is_packed() const { return inflater_ != nullptr; }
  /// How many bytes read() can give: a plain file's size; of a packed one no more than this.
  uint64_t most() const;
  /// Reads up to n bytes; fewer only at the end, where a packed file's checksums are right and
  /// nothing follows them.
  size_t read(void* to, size_t n);

 private:
  struct Inflater;
  size_t inflate(uint8_t* to, size_t n);
  std::string context_;
  File file_;
  uint64_t size_;
  std::unique_ptr<Inflater> inflater_;  // of a packed file
};

/// `path`, or `path`.gz where only that is there.
std::string plain_or_packed(const std::string& path);

}  // namespace gradus::internal
