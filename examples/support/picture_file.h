#pragma once
// Pictures in files as a model's input, and the frame of programs that say something of them.

#include <cstdint>
#include <functional>
#include <string>

#include "examples/support/flags.h"
#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/image_info.h"

namespace gradus {

/// A PNG file's picture, (channels, size, size) of numbers from 0 to 1; grey as three equal channels
/// and those as grey, which it prints. Throws Error, naming the file, on what is no PNG, of another
/// size, or coloured where the model knows grey only.
Tensor read_picture(const std::string& path, int64_t size, int64_t channels);

/// A model that says something of pictures.
struct PictureReader {
  int64_t size, channels;  ///< of the pictures that it takes
  models::ImageInfo info;  ///< of its folder
  /// What it says of one: (1, channels, size, size), normalised as `info` has it; printed
  /// behind the file's name.
  std::function<std::string(const Tensor& picture)> say;
};

/// The frame of a program that looks at pictures: reads the command line (`flags`, --model DIR, which
/// is `folder` unless given, --threads, PNG files), and prints what the reader that `load` makes of
/// DIR says of each file, once all are read. Returns the process's exit status. Throws Error as
/// read_picture does, and if images.json is of another number of channels.
int read_pictures(int argc, char** argv, Flags& flags, std::string folder,
                  const std::function<PictureReader(const std::string& dir)>& load);

}  // namespace gradus
