#pragma once
// Reads PNG files as the input of a model. read_pictures() is the main function of the programs
// caption and classify, which print a caption or the likeliest classes for each PNG file.

#include <cstdint>
#include <functional>
#include <string>

#include "examples/support/flags.h"
#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/image_info.h"

namespace gradus {

/// Returns the content of a PNG file: (channels, size, size) float32 in [0, 1], where `channels` is
/// 1 or 3. If needed, converts between one grey channel and three equal channels, and prints a
/// note. Throws Error, naming the file, if it cannot be read, is not a PNG file, has another size,
/// or is coloured although `channels` is 1.
Tensor read_picture(const std::string& path, int64_t size, int64_t channels);

/// A model that describes pictures.
struct PictureReader {
  int64_t size, channels;  ///< height (equal to the width) and channels of the model's input
  models::ImageInfo info;  ///< normalisation and names of the classes, from the model's folder
  /// Returns a description of `picture` (1, channels, size, size), already normalised with
  /// info.stats. read_pictures() prints the description directly after the name of the file.
  std::function<std::string(const Tensor& picture)> say;
};

/// The main function of a program that describes PNG files. Parses the command line, which consists
/// of `flags`, --model DIR (default: `folder`), --threads, --precision and PNG files. Calls
/// load(DIR), reads all files, and prints the name of each file followed by its description.
/// Returns the exit status. Throws the errors of Flags::parse, `load` and read_picture. Also throws
/// Error if no file is given, or if PictureReader::info and the model have different numbers of
/// channels.
int read_pictures(int argc, char** argv, Flags& flags, std::string folder,
                  const std::function<PictureReader(const std::string& dir)>& load);

}  // namespace gradus
