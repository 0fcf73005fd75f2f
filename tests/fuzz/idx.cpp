#include "gradus/models/data/images/idx.h"

#include <zlib.h>

#include "tests/fuzz/fuzz.h"

namespace idx_fuzz {

using namespace gradus;

namespace {

/// Compresses bytes with gzip.
std::string packed(const std::string& bytes) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY);
  std::string to(deflateBound(&z, bytes.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(to.data());
  z.avail_out = static_cast<uInt>(to.size());
  fuzz::expect(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib");
  to.resize(z.total_out);
  deflateEnd(&z);
  return to;
}

using namespace std::string_literals;
const std::string images = "\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3abcdefghijkl"s,
                  labels = "\0\0\10\1\0\0\0\2\1\7"s,
                  cube = "\0\0\10\4\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\1z"s;

// The first byte says what the rest is: 0 images, 1 labels, 3 a file to compress, else any file.
std::vector<std::string> seeds() {
  return {"\0"s + images,
          "\0"s + packed(images),
          "\1"s + labels,
          "\2"s + cube,
          "\3"s + cube,
          "\2"s + packed(images),
          "\2"s + packed(images.substr(0, 9)) + packed(images.substr(9))};
}

void run(const std::string& bytes) {
  if (bytes.empty()) return;
  const std::string content = bytes.substr(1);
  if (bytes[0] == 0 || bytes[0] == 1) {
    const std::string x = fuzz::write(bytes[0] ? images : content, "x"),
                      y = fuzz::write(bytes[0] ? content : labels, "y");
    models::read_idx_images(x, y).size();
  } else {
    models::read_idx(fuzz::write(bytes[0] == 3 ? packed(content) : content), int64);
  }
}

// A compressed byte expands to at most 1032 bytes, each of which becomes an int64.
const fuzz::Register target{{"idx", seeds, run, 1032 * 10}};

}  // namespace

}  // namespace idx_fuzz
