#include "gradus/core/files/file.h"

#include <fcntl.h>

#include "gradus/core/files/open_file.h"
#include "gradus/core/internal.h"

namespace gradus {

void write_file_atomically(const std::string& path, const std::string& bytes) {
  replace_file("write_file_atomically", path,
               [&](File& file) { file.write(bytes.data(), bytes.size()); });
}

std::string read_file(const std::string& path) {
  File file("read_file: " + path + ": ", path, O_RDONLY);
  std::string bytes;
  constexpr size_t piece = 1 << 16;
  for (size_t got = piece; got == piece;) {
    const size_t before = bytes.size();
    bytes.resize(before + piece);
    got = file.read(bytes.data() + before, piece);
    bytes.resize(before + got);
  }
  return bytes;
}

}  // namespace gradus
