#pragma once
// The images of the example programs: their command-line flags, and reading the training and
// validation images.

#include <cstdint>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "examples/training/task.h"
#include "gradus/models/data/images/augment.h"
#include "gradus/models/data/images/images.h"

namespace gradus {

/// Options of the image data. Each program sets its own defaults.
struct ImageOptions {
  std::string data = "shapes:10000";
  int64_t batch = 64;
  models::AugmentOptions augment = {};
  bool captioned = false;  ///< read images with captions; `data` must then be shapes:N
};

/// Declares --data, --batch and the flags of augmentation, under their own heading in --help.
void add_flags(Flags& flags, ImageOptions& options);

/// Training and validation images.
struct ImageCorpus {
  models::ImageSplit images;
  std::vector<std::string> train_captions, test_captions;  ///< one per image, if captioned
  std::string about;                                       ///< a line for the log
  std::string id;                                          ///< identifies the data

  const models::ImageData& part(Split part) const {
    return part == Split::train ? images.train : images.test;
  }
  const std::vector<std::string>& captions(Split part) const {
    return part == Split::train ? train_captions : test_captions;
  }
};

/// Reads or generates the images that options.data names. Throws Error on failure, and if
/// options.augment is out of range.
ImageCorpus read_image_corpus(const ImageOptions& options);

}  // namespace gradus
