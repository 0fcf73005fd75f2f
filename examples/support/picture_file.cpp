#include "examples/support/picture_file.h"

#include <algorithm>
#include <cstdio>

#include "gradus/core/error.h"
#include "gradus/models/data/png.h"

namespace gradus {

using models::ImageBytes, models::ImageInfo;

namespace {

/// Grey as three equal channels, and those as grey.
ImageBytes with_channels(const std::string& path, ImageBytes image, int64_t channels) {
  if (image.channels == channels) return image;
  const auto plane = static_cast<std::ptrdiff_t>(image.bytes.size()) / image.channels;
  const auto red = image.bytes.begin();
  if (image.channels == 3) {
    core::check(
        std::equal(red, red + plane, red + plane) && std::equal(red, red + plane, red + 2 * plane),
        path, ": expected a grey picture, got one with colours");
    image.bytes.resize(static_cast<size_t>(plane));
  } else {
    const std::vector<uint8_t> grey = image.bytes;
    for (int64_t c = 1; c < channels; ++c)
      image.bytes.insert(image.bytes.end(), grey.begin(), grey.end());
  }
  std::printf("%s: %s\n", path.c_str(),
              channels == 1 ? "coloured, but all of it grey: taken as grey"
                            : "grey: taken as three equal colours");
  image.channels = channels;
  return image;
}

}  // namespace

Tensor read_picture(const std::string& path, int64_t size, int64_t channels) {
  const ImageBytes image = models::read_png(path);
  core::check(image.height == size && image.width == size, path, ": expected ", size, " x ", size,
              " pixels, got ", image.width, " x ", image.height);
  return models::to_tensor(with_channels(path, image, channels));
}

ImageInfo image_info_of(const std::string& dir, int64_t channels) {
  ImageInfo info = models::load_image_info(dir);
  core::check(std::ssize(info.stats.mean) == channels, models::image_info_path(dir), ": ",
              info.stats.mean.size(), " channels, the model has ", channels);
  return info;
}

}  // namespace gradus
