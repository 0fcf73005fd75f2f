#include "examples/support/picture_file.h"

#include <algorithm>
#include <cstdio>

#include "examples/pictures/heat_map.h"
#include "examples/support/precision.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/modes.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/data/images/png.h"

namespace gradus {

using models::ImageBytes;

namespace {

/// Converts grey to three equal channels, or three equal channels to grey.
ImageBytes with_channels(const std::string& path, ImageBytes image, int64_t channels) {
  if (image.channels == channels) return image;
  const auto plane = static_cast<std::ptrdiff_t>(image.bytes.size()) / image.channels;
  const auto red = image.bytes.begin();
  if (image.channels == 3) {
    core::check(
        std::equal(red, red + plane, red + plane) && std::equal(red, red + plane, red + 2 * plane),
        path, ": expected a grey picture, got a coloured one");
    image.bytes.resize(static_cast<size_t>(plane));
  } else {
    const std::vector<uint8_t> grey = image.bytes;
    for (int64_t c = 1; c < channels; ++c)
      image.bytes.insert(image.bytes.end(), grey.begin(), grey.end());
  }
  std::printf("%s: %s\n", visible(path, false).c_str(),
              channels == 1 ? "stored in colour but all grey: read as grey"
                            : "grey: read as three equal channels");
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

int read_pictures(int argc, char** argv, Flags& flags, std::string folder,
                  const std::function<PictureReader(const std::string& dir)>& load) {
  std::vector<std::string> paths;
  int64_t threads = num_threads();
  flags.add("--model", folder, "DIR", "folder written by training");
  flags.add("--threads", threads, 1, 1024, "number of threads");
  Precision precision = Precision::float32;
  add_precision_flag(flags, precision);
  flags.rest(paths);
  if (!flags.parse(argc, argv)) return 0;
  core::check(!paths.empty(), "expected PNG files (see --help)");
  set_num_threads(static_cast<int>(threads));

  const PrecisionScope products(precision);
  const NoGrad no_grad;
  const EvalMode eval;
  const PictureReader reader = load(folder);
  const models::ChannelStats& stats = reader.info.stats;
  core::check(std::ssize(stats.mean) == reader.channels, models::image_info_path(folder), ": ",
              stats.mean.size(), " channels, the model has ", reader.channels);
  std::vector<Tensor> pictures;
  for (const std::string& path : paths)
    pictures.push_back(read_picture(path, reader.size, reader.channels));
  for (size_t i = 0; i < paths.size(); ++i) {
    const Tensor x = models::normalize(pictures[i].unsqueeze(0), stats);
    std::printf("%s%s", visible(paths[i], false).c_str(), reader.say(x).c_str());
  }
  return 0;
}

}  // namespace gradus
