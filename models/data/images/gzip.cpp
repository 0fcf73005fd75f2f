#include "gradus/models/data/images/gzip.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"

namespace gradus::internal {

struct PackedFile::Inflater {
  z_stream stream{};
  std::array<uint8_t, 1 << 14> input;
  uint64_t read = 0;            // bytes of the compressed file
  bool between_members = true;  // the file may end here
  Inflater() {
    constexpr int gzip_only = 16, window = 15;
    check(inflateInit2(&stream, window + gzip_only) == Z_OK, "zlib: out of memory");
  }
  ~Inflater() { inflateEnd(&stream); }
};

PackedFile::PackedFile(std::string context, const std::string& path)
    : context_(std::move(context)), file_(context_, path, O_RDONLY), size_(file_.size()) {
  std::array<uint8_t, 2> magic{};
  if (file_.read(magic.data(), 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b)
    inflater_ = std::make_unique<Inflater>();
  file_.rewind();
}

PackedFile::~PackedFile() = default;

uint64_t PackedFile::most() const {
  // Deflate codes its longest match, 258 bytes, in at least 2 bits.
  constexpr uint64_t ratio = 1032;
  return is_packed() ? size_ * ratio : size_;
}

size_t PackedFile::read(void* to, size_t n) {
  return is_packed() ? inflate(static_cast<uint8_t*>(to), n) : file_.read(to, n);
}

size_t PackedFile::inflate(uint8_t* to, size_t n) {
  Inflater& in = *inflater_;
  z_stream& z = in.stream;
  size_t got = 0;
  while (got < n) {
    if (z.avail_in == 0) {
      z.next_in = in.input.data();
      z.avail_in = static_cast<uInt>(file_.read(in.input.data(), in.input.size()));
      in.read += z.avail_in;
    }
    if (z.avail_in == 0) {
      check(in.between_members, context_, "byte ", in.read, ": the gzip data end too early");
      break;
    }
    if (std::exchange(in.between_members, false)) inflateReset(&z);
    const auto room = static_cast<uInt>(std::min<size_t>(n - got, 1 << 30));
    z.next_out = to + got;
    z.avail_out = room;
    const int status = ::inflate(&z, Z_NO_FLUSH);
    got += room - z.avail_out;
    in.between_members = status == Z_STREAM_END;
    check(status == Z_OK || status == Z_STREAM_END, context_, "byte ", in.read - z.avail_in,
          ": damaged gzip data: ", z.msg ? z.msg : zError(status));
  }
  return got;
}

std::string plain_or_packed(const std::string& path) {
  std::error_code ignored;
  const bool only_packed =
      !std::filesystem::exists(path, ignored) && std::filesystem::exists(path + ".gz", ignored);
  return only_packed ? path + ".gz" : path;
}

}  // namespace gradus::internal
