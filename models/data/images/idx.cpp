#include "gradus/models/data/images/idx.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "gradus/core/internal.h"
#include "gradus/models/data/images/gzip.h"

namespace gradus::models {

namespace {

struct IdxBytes {
  Shape shape;
  std::vector<uint8_t> bytes;
};

uint64_t header_bytes(const Shape& shape) { return 4 + 4 * static_cast<uint64_t>(shape.size()); }

/// Reads the header (two zero bytes, the type, the number of axes, and the size of each axis as a
/// big-endian uint32) and returns the shape.
Shape read_header(const std::string& context, PackedFile& file) {
  std::array<uint8_t, 4> magic{}, size{};
  size_t got = file.read(magic.data(), magic.size());
  check(got == magic.size(), context, "byte ", got, ": the file ends within its header");
  check(magic[0] == 0 && magic[1] == 0, context, "byte 0: expected two zero bytes, got ",
        int{magic[0]}, " and ", int{magic[1]});
  check(magic[2] == 0x08, context, "byte 2: expected type 8, unsigned bytes, got ", int{magic[2]});
  check(magic[3] >= 1 && magic[3] <= 4, context, "byte 3: expected 1 to 4 axes, got ",
        int{magic[3]});
  Shape shape;
  for (int axis = 0; axis < magic[3]; ++axis) {
    const uint64_t at = header_bytes(shape);
    got = file.read(size.data(), size.size());
    check(got == size.size(), context, "byte ", at + got,
          ": the file ends within its header, in the size of axis ", axis);
    uint32_t n = 0;
    for (uint8_t byte : size) n = n << 8 | byte;
    shape.push_back(n);
  }
  return shape;
}

/// Returns the number of bytes of a tensor of this shape. Throws Error if the file cannot hold them
/// after its header.
uint64_t checked_length(const std::string& context, const Shape& shape, const PackedFile& file) {
  uint64_t expected = 1;
  bool overflow = false;
  for (int64_t size : shape)
    overflow = __builtin_mul_overflow(expected, static_cast<uint64_t>(size), &expected) || overflow;
  overflow = overflow || expected > uint64_t{1} << 47;
  if (std::ranges::find(shape, 0) != shape.end()) {
    expected = 0;
    overflow = false;
  }
  check(!overflow, context, "byte 4: no file holds the shape ", shape);
  const uint64_t header = header_bytes(shape), most = std::max(file.most(), header) - header;
  check(file.is_packed() || expected == most, context, "byte ", header + std::min(expected, most),
        ": expected ", expected, " bytes after the header, for the shape ", shape, ", got ", most);
  check(expected <= most, context, "byte 4: the shape ", shape, " has ", expected,
        " bytes, more than the compressed file can hold");
  return expected;
}

IdxBytes read_bytes(const std::string& path) {
  const std::string there = plain_or_packed(path), context = "read_idx: " + there + ": ";
  PackedFile file(context, there);
  IdxBytes x;
  x.shape = read_header(context, file);
  const uint64_t expected = checked_length(context, x.shape, file);
  x.bytes.resize(expected);
  const size_t got = file.read(x.bytes.data(), expected);
  check(got == expected, context, "byte ", header_bytes(x.shape) + got,
        " of the content: expected ", expected, " bytes after the header, got ", got);
  uint8_t more;  // reading to the end verifies a compressed file's checksum
  check(file.read(&more, 1) == 0, context, "byte ", header_bytes(x.shape) + expected,
        " of the content: expected its end after ", expected, " bytes for the shape ", x.shape);
  return x;
}

/// Reads the pair of files whose names begin with `name`, if it exists.
std::optional<ImageData> read_pair(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  const std::string images = plain_or_packed(path + "-images-idx3-ubyte"),
                    labels = plain_or_packed(path + "-labels-idx1-ubyte");
  std::error_code error;
  if (!std::filesystem::exists(images, error) && !std::filesystem::exists(labels, error))
    return std::nullopt;
  return read_idx_images(images, labels);
}

}  // namespace

Tensor read_idx(const std::string& path, Dtype dtype) {
  const IdxBytes idx = read_bytes(path);
  const Tensor x = empty(idx.shape, dtype);
  dispatch_number("read_idx", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::copy(idx.bytes.begin(), idx.bytes.end(), x.data<T>());
  });
  return x;
}

ImageData read_idx_images(const std::string& images, const std::string& labels, int64_t classes) {
  check(classes >= 1 && classes <= 256, "read_idx_images: expected 1 to 256 classes, got ",
        classes);
  IdxBytes x = read_bytes(images), y = read_bytes(labels);
  check(x.shape.size() == 3 && x.shape.numel() > 0, "read_idx_images: ", images,
        ": expected the shape (n, height, width), no size 0, got ", x.shape);
  check(y.shape.size() == 1, "read_idx_images: ", labels, ": expected the shape (n), got ",
        y.shape);
  check(x.shape[0] == y.shape[0], "read_idx_images: ", images, " has ", x.shape[0], " images, ",
        labels, " has ", y.shape[0], " labels");
  for (size_t i = 0; i < y.bytes.size(); ++i)
    check(y.bytes[i] < classes, "read_idx_images: ", labels, ": byte ", header_bytes(y.shape) + i,
          ": expected a label below ", classes, ", got ", int{y.bytes[i]});
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  x.shape.insert(1, 1);
  return ImageData(x.shape, std::move(x.bytes), {y.bytes.begin(), y.bytes.end()}, std::move(names));
}

ImageSplit read_mnist(const std::string& folder) {
  std::optional<ImageData> train = read_pair(folder, "train"), test = read_pair(folder, "t10k");
  check(train || test, "read_mnist: ", folder,
        ": expected train-images-idx3-ubyte and train-labels-idx1-ubyte, or t10k- likewise, plain "
        "or .gz");
  if (train && test) {
    check(train->shape()[2] == test->shape()[2] && train->shape()[3] == test->shape()[3],
          "read_mnist: ", folder, ": images of two sizes, ", train->shape(), " and ",
          test->shape());
    return {*train, *test};
  }
  const ImageData& only = train ? *train : *test;
  check(only.size() >= 2, "read_mnist: ", folder, ": one image is too few to train and to test");
  return split_images(only, only.size() * 4 / 5);
}

}  // namespace gradus::models
