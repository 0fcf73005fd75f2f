// Image files: gzipped IDX, folders of MNIST and CIFAR-10, PNG; damaged files are refused.

#include <catch2/catch.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/ops/ops.h"
#include "gradus/models/data/images/cifar.h"
#include "gradus/models/data/images/idx.h"
#include "gradus/models/data/images/png.h"
#include "tests/support/compare.h"
#include "tests/support/damaged_files.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;
using models::ImageBytes;

namespace {

/// An IDX file with these axes and bytes.
std::string idx(const std::vector<uint32_t>& axes, const std::string& bytes) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(axes.size())};
  for (const uint32_t n : axes) file += big_endian(n);
  return file + bytes;
}

std::string gzip(const std::string& bytes) { return packed(bytes, 15 + 16); }

/// n pseudo-random bytes.
std::string noise(size_t n, uint32_t seed = 1) {
  std::string bytes;
  while (bytes.size() < n) bytes += static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return bytes;
}

}  // namespace

// ---- IDX and gzip ----

TEST_CASE("read_idx: a compressed file reads as the plain one", "[images]") {
  const TemporaryFolder folder;
  const std::string bytes = noise(70 * 500), plain = idx({70, 500}, bytes);
  write_file_atomically(folder / "plain", plain);
  write_file_atomically(folder / "x.gz", gzip(plain));
  const Tensor x = models::read_idx(folder / "plain");
  CHECK(x.shape() == Shape{70, 500});
  CHECK(difference(models::read_idx(folder / "x.gz"), x) == 0);
  CHECK(difference(models::read_idx(folder / "x"), x) == 0);  // only .gz exists
  // Any name, and several members, one of them empty and one cut within the header.
  write_file_atomically(folder / "y", gzip(plain.substr(0, 7)) + gzip("") + gzip(plain.substr(7)));
  CHECK(difference(models::read_idx(folder / "y"), x) == 0);
  write_file_atomically(folder / "x", idx({1}, "\5"));
  CHECK(models::read_idx(folder / "x").to_vector<int>() == std::vector<int>{5});  // not the .gz
  write_file_atomically(folder / "z", gzip(idx({0, 3}, "")));
  CHECK(models::read_idx(folder / "z").shape() == Shape{0, 3});
  CHECK_THROWS_WITH(models::read_idx(folder / "none"), Contains("none: No such file"));
}

TEST_CASE("read_idx: a damaged compressed file is refused", "[images]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x", opening = "read_idx: " + path + ": ";
  const std::string plain = idx({4, 10}, noise(40)), good = gzip(plain);
  const auto refused = [&](const std::string& file) {
    overwrite(path, file);
    const std::string message = error_of([&] { models::read_idx(path); });
    REQUIRE(message.rfind(opening, 0) == 0);
    return message.substr(opening.size());
  };
  const std::string n = std::to_string(good.size());
  CHECK(refused(good.substr(0, 20)) == "byte 20: the gzip data end too early");
  CHECK(refused(good.substr(0, good.size() - 1)) ==
        "byte " + std::to_string(good.size() - 1) + ": the gzip data end too early");
  CHECK_THAT(refused(good + "garbage"), Contains(": damaged gzip data: incorrect header check"));
  CHECK_THAT(refused(good + '\0'), Contains("the gzip data end too early"));
  std::string other = good;
  other[good.size() - 8] ^= 1;  // the checksum
  CHECK_THAT(refused(other), Contains("damaged gzip data: incorrect data check"));
  CHECK(refused(gzip(plain.substr(0, 50))) ==
        "byte 50 of the content: expected 40 bytes after the header, got 38");
  CHECK(refused(gzip(plain + '1')) ==
        "byte 52 of the content: expected its end after 40 bytes for the shape (4, 10)");
  CHECK(refused(gzip("")) == "byte 0: the file ends within its header");
  CHECK(refused(gzip("\x1f\x8b")) == "byte 2: the file ends within its header");
  CHECK(refused({'\x1f', '\x8b'}) == "byte 2: the gzip data end too early");
  // Nothing is allocated beyond what a file this short can hold.
  CHECK_THAT(refused(gzip(idx({60000, 2000, 2000}, "abc"))),
             Contains("byte 4: the shape (60000, 2000, 2000) has 240000000000 bytes, more than"));
  // Nor is a bomb decompressed: 64 MB of zeros after the 3 bytes read.
  CHECK_THAT(refused(gzip(idx({3}, std::string(1 << 26, '\0')))), Contains("expected its end"));

  overwrite(path, good);
  const Tensor right = models::read_idx(path);
  CHECK(count_taken(path, [&] {
          if (difference(models::read_idx(path), right) != 0) FAIL_CHECK("read as another");
        }) < 100);  // gzip's flags, time and system are free
}

TEST_CASE("read_mnist: the pairs that exist", "[images]") {
  const TemporaryFolder folder;
  const std::string dir = folder.path.string();
  CHECK_THROWS_WITH(models::read_mnist(dir), Contains(dir + ": expected train-images-idx3-ubyte"));
  write_file_atomically(folder / "t10k-images-idx3-ubyte.gz", gzip(idx({10, 2, 3}, noise(60))));
  CHECK_THROWS_WITH(models::read_mnist(dir), Contains("t10k-labels-idx1-ubyte: No such file"));
  write_file_atomically(folder / "t10k-labels-idx1-ubyte",
                        idx({10}, std::string("\0\1\2\3\4\5\6\7\x8\x9", 10)));
  models::ImageSplit data = models::read_images("mnist:" + dir);
  CHECK(data.train.shape() == Shape{8, 1, 2, 3});
  CHECK(data.test.shape() == Shape{2, 1, 2, 3});
  CHECK(data.test.label(1) == 9);
  CHECK(data.test.class_names()[9] == "9");
  const std::string bytes = noise(60);
  CHECK(data.test.image(1).bytes == std::vector<uint8_t>(bytes.end() - 6, bytes.end()));
  // With training images, all test images are kept.
  write_file_atomically(folder / "train-images-idx3-ubyte", idx({3, 2, 3}, noise(18, 2)));
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({3}, "\1\1\4"));
  data = models::read_mnist(dir);
  CHECK(data.train.size() == 3);
  CHECK(data.test.size() == 10);
  // Files that do not match.
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({2}, "\1\1"));
  CHECK_THROWS_WITH(models::read_mnist(dir),
                    Contains("ubyte has 3 images, ") && Contains("ubyte has 2 labels"));
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({3}, "\1\1\xa"));
  CHECK_THROWS_WITH(models::read_mnist(dir), Contains("train-labels-idx1-ubyte: byte 10: expected "
                                                      "a label below 10, got 10"));
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({3, 1}, "\1\1\1"));
  CHECK_THROWS_WITH(models::read_mnist(dir), Contains("expected the shape (n), got (3, 1)"));
  write_file_atomically(folder / "train-images-idx3-ubyte", idx({3, 2, 0}, ""));
  CHECK_THROWS_WITH(models::read_mnist(dir), Contains("images-idx3-ubyte: expected the shape (n,"));
  write_file_atomically(folder / "train-images-idx3-ubyte", idx({3, 3, 3}, noise(27)));
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({3}, "\1\1\4"));
  CHECK_THROWS_WITH(models::read_mnist(dir), Contains("images of two sizes"));
}

// ---- CIFAR-10 ----

TEST_CASE("read_cifar10: records, names, and what is damaged", "[images]") {
  const TemporaryFolder folder;
  const std::string dir = folder.path.string();
  const auto batch = [](std::initializer_list<int> labels, uint32_t seed) {
    std::string file;
    for (const int label : labels) file += static_cast<char>(label) + noise(3072, seed++);
    return file;
  };
  for (int i = 1; i <= 5; ++i)
    write_file_atomically(folder / "data_batch_" + std::to_string(i) + ".bin",
                          batch({i, 9}, static_cast<uint32_t>(i * 10)));
  CHECK_THROWS_WITH(models::read_cifar10(dir), Contains("test_batch.bin: No such file"));
  const std::string test = folder / "test_batch.bin";
  write_file_atomically(test, batch({0, 6, 3}, 70));
  models::ImageSplit data = models::read_images("cifar10:" + dir);
  CHECK(data.train.shape() == Shape{10, 3, 32, 32});
  CHECK(data.test.shape() == Shape{3, 3, 32, 32});
  CHECK(data.train.label(4) == 3);
  CHECK(data.train.label(5) == 9);
  CHECK(data.test.class_names()[6] == "frog");
  const std::string pixels = noise(3072, 31);
  CHECK(data.train.image(5).bytes == std::vector<uint8_t>(pixels.begin(), pixels.end()));
  write_file_atomically(folder / "batches.meta.txt", "a\r\nb\nc\nd\ne\nf\ng\nh\ni\nship\n\n");
  CHECK(models::read_cifar10(dir).train.class_names()[9] == "ship");
  write_file_atomically(folder / "batches.meta.txt", "a\nb\n");
  CHECK_THROWS_WITH(models::read_cifar10(dir), Contains("expected 10 names, one per line, got 2"));
  std::filesystem::remove(folder / "batches.meta.txt");

  const std::string good = batch({0, 6}, 70);
  for (size_t length = 0; length < good.size(); length += length % 3073 < 3 ? 1 : 307) {
    overwrite(test, good.substr(0, length));
    const std::string message = error_of([&] { models::read_cifar10(dir); });
    if (length == 3073)
      CHECK(message.empty());
    else
      CHECK_THAT(message, Contains(test + ": byte " + std::to_string(length / 3073 * 3073) +
                                   ": expected records of 3073 bytes"));
  }
  write_file_atomically(test, batch({0, 10}, 70));
  CHECK_THROWS_WITH(models::read_cifar10(dir),
                    Contains(test + ": byte 3073: expected a label below 10, got 10"));
  CHECK_THROWS_WITH(models::read_images("cifar10:"), Contains("expected mnist:DIR"));
  CHECK_THROWS_WITH(models::read_images("shapes:1"), Contains("shapes:N"));
  CHECK_THROWS_WITH(models::read_images("shapes:5x"), Contains("shapes:N"));
  CHECK_THROWS_WITH(models::read_images(""), Contains("got \"\""));
  CHECK(models::read_images("shapes:11").test.size() == 3);
}

// ---- PNG ----

namespace {

/// A PNG file made by hand; each of the `rows` begins with its filter byte.
std::string png(uint32_t width, uint32_t height, int depth, int colour, const std::string& rows,
                const std::string& chunks = "", bool interlaced = false) {
  const std::string header = big_endian(width) + big_endian(height) + static_cast<char>(depth) +
                             static_cast<char>(colour) + '\0' + '\0' +
                             static_cast<char>(interlaced);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunks + chunk("IDAT", packed(rows, 15)) +
         chunk("IEND", "");
}

std::string bytes_of(std::initializer_list<int> bytes) {
  std::string out;
  for (const int b : bytes) out += static_cast<char>(b);
  return out;
}

using Bytes = std::vector<uint8_t>;

}  // namespace

TEST_CASE("png: reading restores what was written, bit for bit", "[images]") {
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
  Bytes all;  // every value
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
  // Grey of 8 and 1 bits, RGB, the filters "sub" and "up".
  CHECK(read(png(2, 2, 8, 0, bytes_of({0, 1, 2, 0, 3, 255}))) ==
        ImageBytes{1, 2, 2, {1, 2, 3, 255}});
  CHECK(read(png(3, 1, 1, 0, bytes_of({0, 0xa0}))) == ImageBytes{1, 1, 3, {255, 0, 255}});
  CHECK(read(png(2, 2, 8, 0, bytes_of({1, 10, 5, 2, 1, 1}))) ==
        ImageBytes{1, 2, 2, {10, 15, 11, 16}});
  CHECK(read(png(2, 1, 8, 2, bytes_of({0, 1, 2, 3, 4, 5, 6}))) ==
        ImageBytes{3, 1, 2, {1, 4, 2, 5, 3, 6}});
  // A palette of two colours, 4 bits per pixel.
  const std::string palette = chunk("PLTE", bytes_of({200, 100, 50, 1, 2, 3}));
  CHECK(read(png(2, 1, 4, 3, bytes_of({0, 0x10}), palette)) ==
        ImageBytes{3, 1, 2, {1, 200, 2, 100, 3, 50}});
  // 16 bits: the high byte, rounded.
  CHECK(read(png(3, 1, 16, 0, bytes_of({0, 0, 0, 128, 128, 255, 255}))) ==
        ImageBytes{1, 1, 3, {0, 128, 255}});
  // Transparent pixels become white, opaque ones stay, in grey and RGB.
  CHECK(read(png(2, 1, 8, 4, bytes_of({0, 9, 0, 9, 255}))) == ImageBytes{1, 1, 2, {255, 9}});
  CHECK(read(png(2, 1, 8, 6, bytes_of({0, 9, 8, 7, 0, 9, 8, 7, 255}))) ==
        ImageBytes{3, 1, 2, {255, 9, 255, 8, 255, 7}});
  const Bytes half = read(png(1, 1, 8, 4, bytes_of({0, 0, 128}))).bytes;
  CHECK((half.size() == 1 && half[0] > 120 && half[0] < 200));  // blended in linear light
  // Interlaced: the pixels (0, 0), (0, 1), then the second row.
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
  const std::string rows = bytes_of({0, 1, 2});
  CHECK(refused(png(0, 1, 8, 0, rows)) != "");
  CHECK(refused(png(2, 2, 8, 0, rows)) != "");                 // a row is missing
  CHECK(refused(png(2, 1, 8, 5, rows)) != "");                 // invalid colour type
  CHECK(refused(png(2, 1, 4, 3, bytes_of({0, 0x10}))) != "");  // no palette
  CHECK_THAT(refused(png(60000, 60000, 8, 0, rows)), Contains("a picture of 60000 x 60000 pixels"));
  CHECK_THAT(refused(png(8000, 8000, 8, 2, rows)),
             Contains("a picture of 8000 x 8000 pixels in a"));
  CHECK_THROWS_WITH(models::read_png(folder / "none.png"), Contains("none.png: No such file"));
  // libpng would allocate the stated length of a chunk.
  std::string endless = png(2, 1, 8, 0, rows, chunk("tEXt", "a"));
  endless.replace(33, 4, bytes_of({0x4e, 0x44, 0, 3}));
  CHECK_THAT(refused(endless), Contains("a chunk of 1313079299 bytes at byte 33 of"));
  overwrite(path, png(2, 1, 8, 0, rows) + "\xff\xff\xff\xffwhat follows the end");
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
