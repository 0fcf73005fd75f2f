#include "gradus/models/data/images/cifar.h"

#include <fcntl.h>

#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "gradus/core/files/file.h"
#include "gradus/core/files/open_file.h"
#include "gradus/core/internal.h"

namespace gradus::models {

namespace {

constexpr uint64_t pixels = 3 * 32 * 32, record = 1 + pixels;
constexpr size_t cifar_classes = 10;

std::vector<std::string> read_names(const std::string& path) {
  if (std::error_code error; !std::filesystem::exists(path, error))
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  std::istringstream text(read_file(path));
  std::vector<std::string> names;
  for (std::string line; std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  check(names.size() == cifar_classes, "read_cifar10: ", path,
        ": expected 10 names, one per line, got ", names.size());
  return names;
}

ImageData read_batches(const std::vector<std::string>& paths,
                       const std::vector<std::string>& names) {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> labels;
  for (const std::string& path : paths) {
    const std::string context = "read_cifar10: " + path + ": ";
    File file(context, path, O_RDONLY);
    const uint64_t size = file.size();
    check(size > 0 && size % record == 0, context, "byte ", size - size % record,
          ": expected records of ", record, " bytes, got ", size % record, " at the file's end");
    bytes.reserve(bytes.size() + size / record * pixels);
    for (uint64_t at = 0; at < size; at += record) {
      uint8_t label;
      file.read_exactly(&label, 1);
      check(label < cifar_classes, context, "byte ", at, ": expected a label below 10, got ",
            int{label});
      labels.push_back(label);
      bytes.resize(bytes.size() + pixels);
      file.read_exactly(bytes.data() + bytes.size() - pixels, pixels);
    }
  }
  const Shape shape{std::ssize(labels), 3, 32, 32};
  return ImageData(shape, std::move(bytes), std::move(labels), names);
}

}  // namespace

ImageSplit read_cifar10(const std::string& folder) {
  const std::vector<std::string> names = read_names(folder + "/batches.meta.txt");
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i)
    train.push_back(folder + "/data_batch_" + std::to_string(i) + ".bin");
  return {read_batches(train, names), read_batches({folder + "/test_batch.bin"}, names)};
}

}  // namespace gradus::models
