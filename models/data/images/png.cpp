#include "gradus/models/data/images/png.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>

#include "gradus/core/files/file.h"
#include "gradus/core/files/open_file.h"
#include "gradus/core/internal.h"

namespace gradus::models {

namespace {

constexpr int64_t max_pixels = 1 << 26;

/// Owns a png_image of libpng's simplified API, whose functions return on errors instead of calling
/// longjmp.
struct Png {
  png_image image{};
  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  void succeeded(int ok, const char* op, const std::string& path) const {
    check(ok != 0, op, ": ", path, ": ", image.message);
  }
};

/// Calls copy(planar index, interleaved index) for each sample.
template <class Copy>
void each_sample(int64_t channels, int64_t pixels, Copy&& copy) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < pixels; ++k)
      copy(static_cast<size_t>(c * pixels + k), static_cast<size_t>(k * channels + c));
}

/// Throws Error unless the file holds whole chunks with their checksums, up to the last, IEND.
/// libpng allocates a chunk's stated length before it reads the chunk, only warns of some damaged
/// chunks, and reads a picture whose end is missing.
void check_chunks(const std::string& path, const std::string& file) {
  constexpr size_t around = 12;  // bytes of a chunk's length, type and checksum
  const auto* bytes = reinterpret_cast<png_const_bytep>(file.data());
  bool is_last = false;
  for (size_t at = 8; !is_last;) {
    check(at + around <= file.size(), "read_png: ", path, ": damaged: it ends without IEND");
    const size_t length = png_get_uint_32(bytes + at);
    check(length <= file.size() - at - around, "read_png: ", path, ": damaged: a chunk of ", length,
          " bytes at byte ", at, " of ", file.size());
    const size_t checksum = crc32_z(0, bytes + at + 4, length + 4);
    check(checksum == png_get_uint_32(bytes + at + 8 + length), "read_png: ", path,
          ": damaged: wrong CRC of the chunk at byte ", at);
    is_last = file.compare(at + 4, 4, "IEND") == 0;
    at += around + length;
  }
}

}  // namespace

ImageBytes read_png(const std::string& path) {
  const std::string file = read_file(path);
  check(file.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) == 0,
        "read_png: ", path, ": not a PNG file: it does not begin with that format's eight bytes");
  check_chunks(path, file);
  Png png;
  png.succeeded(png_image_begin_read_from_memory(&png.image, file.data(), file.size()), "read_png",
                path);
  // Deflate expands by a factor of at most 1032, and a byte holds up to 8 pixels.
  const int64_t pixels = int64_t{png.image.width} * png.image.height;
  check(pixels <= max_pixels && pixels / 8 <= std::ssize(file) * 1032, "read_png: ", path,
        ": a picture of ", png.image.width, " x ", png.image.height, " pixels in a file of ",
        file.size(), " bytes");
  const bool is_grey = (png.image.format & PNG_FORMAT_FLAG_COLOR) == 0;
  png.image.format = is_grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  ImageBytes image{is_grey ? 1 : 3, png.image.height, png.image.width, {}};
  std::vector<uint8_t> rows(PNG_IMAGE_SIZE(png.image));
  const png_color white{255, 255, 255};
  png.succeeded(png_image_finish_read(&png.image, &white, rows.data(), 0, nullptr), "read_png",
                path);
  image.bytes.resize(rows.size());
  each_sample(image.channels, image.height * image.width,
              [&](size_t planar, size_t interleaved) { image.bytes[planar] = rows[interleaved]; });
  return image;
}

void write_png(const std::string& path, const ImageBytes& image) {
  const int64_t channels = image.channels, height = image.height, width = image.width;
  check(
      (channels == 1 || channels == 3) && height >= 1 && width >= 1 && height <= max_pixels / width,
      "write_png: ", path, ": expected 1 or 3 channels and 1 to 2^26 pixels, got ", channels, " x ",
      height, " x ", width);
  check(std::ssize(image.bytes) == channels * height * width, "write_png: ", path, ": ",
        image.bytes.size(), " bytes for ", channels, " x ", height, " x ", width);
  std::vector<uint8_t> rows(image.bytes.size());
  each_sample(channels, height * width,
              [&](size_t planar, size_t interleaved) { rows[interleaved] = image.bytes[planar]; });
  Png png;
  png.image.width = static_cast<png_uint_32>(width);
  png.image.height = static_cast<png_uint_32>(height);
  png.image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png.image);
  std::string file(size, '\0');
  png.succeeded(
      png_image_write_to_memory(&png.image, file.data(), &size, 0, rows.data(), 0, nullptr),
      "write_png", path);
  replace_file("write_png", path, [&](File& out) { out.write(file.data(), size); });
}

}  // namespace gradus::models
