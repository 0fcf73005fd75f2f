#pragma once
// A picture in a file as a model's input.

#include <string>

#include "gradus/core/tensor.h"
#include "gradus/models/image_info.h"

namespace gradus {

/// A PNG file's picture, (channels, size, size) of numbers from 0 to 1; grey as three equal channels
/// and those as grey, which it prints. Throws Error, naming the file, on what is no PNG, of another
/// size, or coloured where the model knows grey only.
Tensor read_picture(const std::string& path, int64_t size, int64_t channels);

/// The images.json in a model's folder. Throws Error, naming it, if its statistics are of another
/// number of channels.
models::ImageInfo image_info_of(const std::string& dir, int64_t channels);

}  // namespace gradus
