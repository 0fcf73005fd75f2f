#include "gradus/models/data/images/png.h"

#include <zlib.h>

#include "tests/fuzz/fuzz.h"

namespace png_fuzz {

using namespace gradus;

namespace {

uint32_t big_endian(const std::string& bytes, size_t at) {
  uint32_t n = 0;
  for (size_t i = at; i < at + 4; ++i) n = n << 8 | static_cast<unsigned char>(bytes[i]);
  return n;
}
std::string big_endian(uint32_t n) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift);
  return bytes;
}
uint32_t crc(const std::string& bytes, size_t from, size_t n) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + from, static_cast<uInt>(n)));
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string all = type + data;
  return big_endian(static_cast<uint32_t>(data.size())) + all + big_endian(crc(all, 0, all.size()));
}

/// A PNG file of `height` rows of `row` bytes each; `kind` is the last five bytes of its header.
std::string picture(uint32_t width, uint32_t height, const std::string& kind, size_t row,
                    const std::string& more = "") {
  std::string rows;
  for (uint32_t y = 0; y < height; ++y) rows += static_cast<char>(y % 5) + std::string(row, 'r');
  std::string packed(compressBound(rows.size()), '\0');
  uLongf n = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &n, reinterpret_cast<const Bytef*>(rows.data()),
           rows.size());
  packed.resize(n);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", big_endian(width) + big_endian(height) + kind) + more +
         chunk("IDAT", packed) + chunk("IEND", "");
}

/// Gives each chunk the checksum of its content.
std::string repair(std::string bytes) {
  for (size_t at = 8; at + 12 <= bytes.size();) {
    const size_t n = big_endian(bytes, at);
    if (n > bytes.size() - at - 12) break;
    bytes.replace(at + 8 + n, 4, big_endian(crc(bytes, at + 4, n + 4)));
    at += n + 12;
  }
  return bytes;
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  const std::string palette = chunk("PLTE", "abcdef");
  return {picture(3, 6, "\10\0\0\0\0"s, 3),
          picture(3, 6, "\10\2\0\0\0"s, 9),
          picture(3, 6, "\10\6\0\0\0"s, 12),
          picture(3, 6, "\20\4\0\0\0"s, 12),
          picture(3, 2, "\20\2\0\0\0"s, 18, chunk("gAMA", big_endian(45455))),
          picture(9, 2, "\1\0\0\0\0"s, 2),
          picture(9, 2, "\1\3\0\0\0"s, 2, palette),
          picture(9, 2, "\1\3\0\0\0"s, 2, palette + chunk("tRNS", "\0\200"s)),
          picture(1, 1, "\10\0\0\0\1"s, 1, chunk("tEXt", "a\0b"s) + chunk("sRGB", "\0"s)),
          fuzz::saved([](const std::string& path) {
            models::write_png(path, {3, 2, 2, std::vector<uint8_t>(12, 200)});
          })};
}

void run(const std::string& bytes) {
  const auto image = models::read_png(fuzz::write(repair(bytes)));
  const std::string path = fuzz::path_of("again");
  models::write_png(path, image);
  fuzz::expect(models::read_png(path) == image, "written and read, another picture");
}

// A compressed byte expands to at most 1032 bytes, each of at most 8 pixels of 3 bytes, which are
// held in up to three copies.
const fuzz::Register target{{"png", seeds, run, 1032 * 8 * 3 * 4}};

}  // namespace

}  // namespace png_fuzz
