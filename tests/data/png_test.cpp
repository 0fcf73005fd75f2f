// PNG files.

#include "gradus/models/data/images/png.h"

#include <catch2/catch.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/ops/ops.h"
#include "tests/support/compare.h"
#include "tests/support/damaged_files.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace png_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;
using models::ImageBytes;

namespace {

/// A PNG file; each of the `rows` begins with its filter byte.
std::string png(uint32_t width, uint32_t height, int depth, int colour, const std::string& rows,
                const std::string& chunks = "", bool interlaced = false) {
  const std::string header = big_endian(width) + big_endian(height) + static_cast<char>(depth) +
                             static_cast<char>(colour) + '\0' + '\0' +
                             static_cast<char>(interlaced);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunks + chunk("IDAT", packed(rows, 15)) +
         chunk("IEND", "");
}

using Bytes = std::vector<uint8_t>;

}  // namespace

TEST_CASE("png: a written file reads back bit for bit", "[images]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.png";
  for (const int64_t channels : {1, 3})
    for (const auto& [height, width] : std::initializer_list<std::pair<int64_t, int64_t>>{
             {1, 1}, {1, 7}, {5, 1}, {13, 17}, {64, 64}}) {
      const std::string pixels = noise(static_cast<size_t>(channels * height * width));
      const ImageBytes image{channels, height, width, {pixels.begin(), pixels.end()}};
      models::write_png(path, image);
      CHECK(models::read_png(path) == image);
    }
  CHECK(folder.files() == 1);
  Bytes all;  // every byte value
  for (int i = 0; i < 768; ++i) all.push_back(static_cast<uint8_t>(i));
  models::write_png(path, {3, 16, 16, all});
  CHECK(models::read_png(path).bytes == all);
}

TEST_CASE("png: files of every kind", "[images]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.png";
  const auto read = [&](const std::string& file) {
    overwrite(path, file);
    return models::read_png(path);
  };
  // Grey images of 8 bits and 1 bit, RGB images, and the filters "sub" and "up".
  CHECK(read(png(2, 2, 8, 0, bytes_of({0, 1, 2, 0, 3, 255}))) ==
        ImageBytes{1, 2, 2, {1, 2, 3, 255}});
  CHECK(read(png(3, 1, 1, 0, bytes_of({0, 0xa0}))) == ImageBytes{1, 1, 3, {255, 0, 255}});
  CHECK(read(png(2, 2, 8, 0, bytes_of({1, 10, 5, 2, 1, 1}))) ==
        ImageBytes{1, 2, 2, {10, 15, 11, 16}});
  CHECK(read(png(2, 1, 8, 2, bytes_of({0, 1, 2, 3, 4, 5, 6}))) ==
        ImageBytes{3, 1, 2, {1, 4, 2, 5, 3, 6}});
  // A large white picture in a small file: 125 bytes and a filter byte per row.
  const std::string row = std::string(1, '\0') + std::string(125, '\xff');
  std::string rows;
  for (int y = 0; y < 1000; ++y) rows += row;
  CHECK(read(png(1000, 1000, 1, 0, rows)) == ImageBytes{1, 1000, 1000, Bytes(1000000, 255)});
  // A palette of two colours, 4 bits per pixel.
  const std::string palette = chunk("PLTE", bytes_of({200, 100, 50, 1, 2, 3}));
  CHECK(read(png(2, 1, 4, 3, bytes_of({0, 0x10}), palette)) ==
        ImageBytes{3, 1, 2, {1, 200, 2, 100, 3, 50}});
  // 16-bit values are rounded to 8 bits.
  CHECK(read(png(3, 1, 16, 0, bytes_of({0, 0, 0, 128, 128, 255, 255}))) ==
        ImageBytes{1, 1, 3, {0, 128, 255}});
  // Transparent pixels become white, opaque ones are kept, in grey and RGB.
  CHECK(read(png(2, 1, 8, 4, bytes_of({0, 9, 0, 9, 255}))) == ImageBytes{1, 1, 2, {255, 9}});
  CHECK(read(png(2, 1, 8, 6, bytes_of({0, 9, 8, 7, 0, 9, 8, 7, 255}))) ==
        ImageBytes{3, 1, 2, {255, 9, 255, 8, 255, 7}});
  const Bytes half = read(png(1, 1, 8, 4, bytes_of({0, 0, 128}))).bytes;
  CHECK((half.size() == 1 && half[0] > 120 && half[0] < 200));  // blended in linear light
  // An interlaced file holds the pixels (0, 0), (0, 1), then the second row.
  CHECK(read(png(2, 2, 8, 0, bytes_of({0, 1, 0, 2, 0, 3, 4}), "", true)) ==
        ImageBytes{1, 2, 2, {1, 2, 3, 4}});
}

TEST_CASE("png: damaged or too large files are refused", "[images]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.png", opening = "read_png: " + path + ": ";
  const auto refused = [&](const std::string& file) {
    overwrite(path, file);
    const std::string message = error_of([&] { models::read_png(path); });
    REQUIRE(message.rfind(opening, 0) == 0);
    return message.substr(opening.size());
  };
  for (const char* other : {"", "GIF89", "GIF89a, not a PNG"})
    CHECK_THAT(refused(other), Contains("not a PNG file"));
  CHECK_THAT(refused("\x89PNG\r\n\x1a\n"), !Contains("not a PNG file"));
  const std::string rows = bytes_of({0, 1, 2});
  CHECK(refused(png(0, 1, 8, 0, rows)) != "");
  CHECK(refused(png(2, 2, 8, 0, rows)) != "");                 // a row is missing
  CHECK(refused(png(2, 1, 8, 5, rows)) != "");                 // invalid colour type
  CHECK(refused(png(2, 1, 4, 3, bytes_of({0, 0x10}))) != "");  // no palette
  CHECK_THAT(refused(png(60000, 60000, 8, 0, rows)), Contains("a picture of 60000 x 60000 pixels"));
  CHECK_THAT(refused(png(8000, 8000, 8, 2, rows)),
             Contains("a picture of 8000 x 8000 pixels in a"));
  CHECK_THROWS_WITH(models::read_png(folder / "none.png"), Contains("none.png: No such file"));
  // libpng would allocate the length that a chunk claims.
  std::string endless = png(2, 1, 8, 0, rows, chunk("tEXt", "a"));
  endless.replace(33, 4, bytes_of({0x4e, 0x44, 0, 3}));
  CHECK_THAT(refused(endless), Contains("a chunk of 1313079299 bytes at byte 33 of"));
  // libpng would read a picture whose end is missing, and only warn of some damaged chunks.
  const std::string plain = png(2, 1, 8, 0, rows);
  CHECK_THAT(refused(plain.substr(0, plain.size() - 12)), Contains("it ends without IEND"));
  CHECK_THAT(refused(plain.substr(0, plain.size() - 1)), Contains("it ends without IEND"));
  std::string gamma = chunk("gAMA", bytes_of({0, 0, 177, 143}));
  gamma += gamma;  // libpng keeps this warning alone
  std::string clear = chunk("tRNS", bytes_of({0, 1}));
  clear.back() = static_cast<char>(clear.back() ^ 1);
  CHECK_THAT(refused(png(2, 1, 8, 0, rows, gamma + clear)),
             Contains("wrong CRC of the chunk at byte 65"));
  overwrite(path, plain + "\xff\xff\xff\xffwhat follows the end");
  CHECK(models::read_png(path).bytes == std::vector<uint8_t>{1, 2});

  const std::string noisy = noise(48);
  for (const int64_t channels : {1, 3}) {
    const ImageBytes image{channels, 4, 4, {noisy.begin(), noisy.begin() + channels * 16}};
    models::write_png(path, image);
    const auto load = [&] {
      if (!(models::read_png(path) == image)) FAIL_CHECK("read as another");
    };
    count_taken(path, load);
  }
  const std::string palette = chunk("PLTE", bytes_of({9, 8, 7, 1, 2, 3}));
  for (const std::string& colours : {palette, palette + chunk("tRNS", bytes_of({128, 255}))}) {
    overwrite(path, png(2, 1, 4, 3, bytes_of({0, 0x10}), colours));
    const ImageBytes image = models::read_png(path);
    count_taken(path, [&] {
      if (!(models::read_png(path) == image)) FAIL_CHECK("read as another");
    });
  }
}

TEST_CASE("write_png: an invalid picture is refused, and nothing is written", "[images]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.png";
  CHECK_THROWS_WITH(
      models::write_png(path, {2, 1, 1, {1, 2}}),
      Contains("x.png: expected 1 or 3 channels and 1 to 2^26 pixels, got 2 x 1 x 1"));
  CHECK_THROWS_AS(models::write_png(path, {1, 0, 1, {}}), Error);
  CHECK_THROWS_AS(models::write_png(path, {1, int64_t{1} << 40, int64_t{1} << 40, {}}), Error);
  CHECK_THROWS_WITH(models::write_png(path, {1, 2, 2, {1, 2, 3}}),
                    Contains("3 bytes for 1 x 2 x 2"));
  CHECK(folder.files() == 0);
  CHECK_THROWS_WITH(models::write_png(folder / "no/x.png", {1, 1, 1, {1}}),
                    Contains("write_png: ") && Contains("No such file"));
}

}  // namespace png_test
