// Folders of CIFAR-10, and the names of data sets.

#include "gradus/models/data/images/cifar.h"

#include <catch2/catch.hpp>

#include "gradus/core/files/file.h"
#include "gradus/models/data/images/images.h"
#include "tests/support/compare.h"
#include "tests/support/damaged_files.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace cifar_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;

TEST_CASE("read_cifar10: records, names and damaged files", "[images]") {
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
  const std::string too_long(5000, 'a');  // for the file system
  CHECK_THROWS_AS(models::read_cifar10(too_long), Error);
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
  write_file_atomically(folder / "batches.meta.txt", "a\r\nb  \n\r\nc\nd\ne\nf\ng\nh\ni\nship\n\n");
  CHECK(models::read_cifar10(dir).train.class_names() ==
        std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "ship"});
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
  CHECK(models::read_images("shapes:2").test.size() == 1);
}

}  // namespace cifar_test
