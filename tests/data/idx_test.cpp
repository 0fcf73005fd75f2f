// IDX files, plain and compressed, and folders of MNIST.

#include "gradus/models/data/images/idx.h"

#include <catch2/catch.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/models/data/images/images.h"
#include "tests/support/compare.h"
#include "tests/support/damaged_files.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace idx_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;

namespace {

/// An IDX file with these axes and bytes.
std::string idx(const std::vector<uint32_t>& axes, const std::string& bytes) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(axes.size())};
  for (const uint32_t n : axes) file += big_endian(n);
  return file + bytes;
}

std::string gzip(const std::string& bytes) { return packed(bytes, 15 + 16); }

}  // namespace

TEST_CASE("read_idx: images and labels", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_file_atomically(path, bytes_of({0, 0, 8,   3,   0,   0,  0, 2, 0, 0, 0, 1, 0, 0, 0, 3,  //
                                        0, 1, 127, 128, 254, 255}));
  const Tensor images = models::read_idx(path);
  CHECK(images.shape() == Shape{2, 1, 3});
  CHECK(images.dtype() == float32);
  CHECK(images.to_vector<int>() == std::vector<int>{0, 1, 127, 128, 254, 255});
  CHECK(models::read_idx(path, float64).dtype() == float64);
  write_file_atomically(path, bytes_of({0, 0, 8, 1, 0, 0, 0, 4, 7, 2, 1, 200}));
  const Tensor labels = models::read_idx(path, int64);
  CHECK(labels.shape() == Shape{4});
  CHECK(labels.to_vector<int64_t>() == std::vector<int64_t>{7, 2, 1, 200});
  write_file_atomically(path, bytes_of({0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 28}));
  CHECK(models::read_idx(path).shape() == Shape{0, 28});
  CHECK_THROWS_AS(models::read_idx(path, boolean), Error);
  // A file that takes more than one read, with sizes of more than one byte.
  std::string large = bytes_of({0, 0, 8, 2, 0, 0, 1, 44, 0, 0, 1, 244});
  for (int i = 0; i < 300 * 500; ++i) large.push_back(static_cast<char>(i % 251));
  write_file_atomically(path, large);
  const Tensor x = models::read_idx(path, int64);
  CHECK(x.shape() == Shape{300, 500});
  CHECK(difference(x.reshape({-1}),
                   (arange(300 * 500).to(float64) -
                    251.0 * (arange(300 * 500).to(float64) / 251.0).to(int64).to(float64))
                       .to(int64)) == 0);
}

TEST_CASE("read_idx: a damaged file is refused, naming file and byte", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder / "file", opening = "read_idx: " + path + ": ";
  const auto refused = [&](std::initializer_list<int> bytes) {
    write_file_atomically(path, bytes_of(bytes));
    const int64_t before = memory_stats().live;
    reset_peak_memory();
    const std::string message = error_of([&] { models::read_idx(path); });
    CHECK(memory_stats().peak == before);
    REQUIRE(message.rfind(opening, 0) == 0);
    return message.substr(opening.size());
  };
  CHECK(refused({}) == "byte 0: the file ends within its header");
  CHECK(refused({0, 0, 8}) == "byte 3: the file ends within its header");
  CHECK(refused({1, 0, 8, 1}) == "byte 0: expected two zero bytes, got 1 and 0");
  CHECK(refused({0, 0, 13, 1, 0, 0, 0, 0}) == "byte 2: expected type 8, unsigned bytes, got 13");
  CHECK(refused({0, 0, 8, 0}) == "byte 3: expected 1 to 4 axes, got 0");
  CHECK(refused({0, 0, 8, 5}) == "byte 3: expected 1 to 4 axes, got 5");
  CHECK(refused({0, 0, 8, 2, 0, 0, 0, 1, 0, 0}) ==
        "byte 10: the file ends within its header, in the size of axis 1");
  CHECK(refused({0, 0, 8, 1, 0, 0, 0, 3, 1, 2}) ==
        "byte 10: expected 3 bytes after the header, for the shape (3,), got 2");
  CHECK(refused({0, 0, 8, 1, 0, 0, 0, 1, 1, 2}) ==
        "byte 9: expected 1 bytes after the header, for the shape (1,), got 2");
  CHECK(refused({0, 0, 8, 1, 255, 255, 255, 255, 1}) ==
        "byte 9: expected 4294967295 bytes after the header, for the shape (4294967295,), got 1");
  CHECK_THAT(refused({0,   0,   8,   4,   255, 255, 255, 255, 255, 255,
                      255, 255, 255, 255, 255, 255, 255, 255, 255, 255}),
             Contains("byte 4: no file holds the shape (4294967295, 4294967295"));
  CHECK_THAT(refused({0, 0, 8, 2, 1, 0, 0, 0, 1, 0, 0, 0}),  // 2^48 bytes
             Contains("byte 4: no file holds the shape (16777216, 16777216)"));
  CHECK_THAT(refused({0x1f, 0x8b, 8, 0, 1, 2, 3}), Contains("byte 7: the gzip data end too early"));
  CHECK_THROWS_WITH(models::read_idx(folder / "none"), Contains("none: No such file"));
  CHECK_THROWS_WITH(models::read_idx(folder.path.string()), Contains("not a regular file"));
}

TEST_CASE("read_idx: a compressed file reads like the plain one", "[images]") {
  const TemporaryFolder folder;
  const std::string bytes = noise(70 * 500), plain = idx({70, 500}, bytes);
  write_file_atomically(folder / "plain", plain);
  write_file_atomically(folder / "x.gz", gzip(plain));
  const Tensor x = models::read_idx(folder / "plain");
  CHECK(x.shape() == Shape{70, 500});
  CHECK(difference(models::read_idx(folder / "x.gz"), x) == 0);
  CHECK(difference(models::read_idx(folder / "x"), x) == 0);  // only x.gz exists
  // A file may be much larger than its compressed form.
  const std::string zeros(1 << 16, '\0');
  write_file_atomically(folder / "w", gzip(idx({1 << 16}, zeros)));
  CHECK(models::read_idx(folder / "w").shape() == Shape{1 << 16});
  // A gzip file may have any name and several members, here one empty and one that ends within the
  // header.
  write_file_atomically(folder / "y", gzip(plain.substr(0, 7)) + gzip("") + gzip(plain.substr(7)));
  CHECK(difference(models::read_idx(folder / "y"), x) == 0);
  write_file_atomically(folder / "x", idx({1}, "\5"));
  CHECK(models::read_idx(folder / "x").to_vector<int>() == std::vector<int>{5});  // the plain file
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
  // A decompression bomb is not expanded: 64 MB of zeros after the 3 bytes read.
  CHECK_THAT(refused(gzip(idx({3}, std::string(1 << 26, '\0')))), Contains("expected its end"));

  overwrite(path, good);
  const Tensor right = models::read_idx(path);
  CHECK(count_taken(path, [&] {
          if (difference(models::read_idx(path), right) != 0) FAIL_CHECK("read as another");
        }) < 100);  // gzip's flags, time and system may have any value
}

TEST_CASE("read_mnist: training and test files", "[images]") {
  const TemporaryFolder folder;
  const std::string dir = folder.path.string();
  CHECK_THROWS_WITH(models::read_mnist(dir), Contains(dir + ": expected train-images-idx3-ubyte"));
  const std::string too_long(5000, 'a');  // for the file system
  CHECK_THROWS_WITH(models::read_mnist(too_long), Contains("expected train-images-idx3-ubyte"));
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
  // With training images, all test images are used for testing.
  write_file_atomically(folder / "train-images-idx3-ubyte", idx({3, 2, 3}, noise(18, 2)));
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({3}, "\1\1\4"));
  data = models::read_mnist(dir);
  CHECK(data.train.size() == 3);
  CHECK(data.test.size() == 10);
  // Images and labels that do not match are refused.
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

TEST_CASE("read_idx_images: how many classes there are", "[images]") {
  const TemporaryFolder folder;
  const std::string images = folder / "images", labels = folder / "labels";
  write_file_atomically(images, idx({2, 1, 1}, "ab"));
  write_file_atomically(labels, idx({2}, bytes_of({0, 255})));
  CHECK(models::read_idx_images(images, labels, 256).classes() == 256);
  CHECK_THROWS_WITH(models::read_idx_images(images, labels, 255), Contains("a label below 255"));
  CHECK_THROWS_WITH(models::read_idx_images(images, labels, 257), Contains("1 to 256 classes"));
  CHECK_THROWS_WITH(models::read_idx_images(images, labels, 0), Contains("1 to 256 classes"));
  write_file_atomically(labels, idx({2}, bytes_of({0, 0})));
  CHECK(models::read_idx_images(images, labels, 1).classes() == 1);
}

TEST_CASE("read_mnist: two images are enough to train and to test", "[images]") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "train-images-idx3-ubyte", idx({2, 1, 1}, "ab"));
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({2}, "\1\2"));
  const models::ImageSplit data = models::read_mnist(folder.path.string());
  CHECK(data.train.label(0) == 1);
  CHECK(data.test.label(0) == 2);
  write_file_atomically(folder / "train-images-idx3-ubyte", idx({1, 1, 1}, "a"));
  write_file_atomically(folder / "train-labels-idx1-ubyte", idx({1}, "\1"));
  CHECK_THROWS_WITH(models::read_mnist(folder.path.string()), Contains("one image is too few"));
}

}  // namespace idx_test
