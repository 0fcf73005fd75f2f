#pragma once
// What a program that learns from images reads: its flags, and the images.

#include <cstdint>
#include <string>
#include <vector>

#include "examples/support/flags.h"
#include "examples/training/task.h"
#include "gradus/models/data/images/augment.h"
#include "gradus/models/data/images/images.h"

namespace gradus {

/// A program sets its own defaults.
struct ImageOptions {
  std::string data = "shapes:10000";
  int64_t batch = 64;
  models::AugmentOptions augment = {};
  bool captioned =
      false;  ///< a program's that needs captions: one or two shapes, and no other data
};

/// The flags --data, --batch and, one for each, those of augmentation, under a heading of their own.
void add_flags(Flags& flags, ImageOptions& options);

/// Images to learn from, and images that are held out.
struct ImageCorpus {
  models::ImageSplit images;
  std::vector<std::string> train_captions, test_captions;  ///< one an image, where asked for
  std::string about;                                       ///< a line on what it is
  std::string id;                                          ///< tells it from others

  const models::ImageData& part(Split part) const {
    return part == Split::train ? images.train : images.test;
  }
  const std::vector<std::string>& captions(Split part) const {
    return part == Split::train ? train_captions : test_captions;
  }
};

/// What --data names. Throws Error if there is none.
ImageCorpus read_image_corpus(const ImageOptions& options);

}  // namespace gradus
