#pragma once
// PNG files, by libpng.

#include <string>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// Reads a PNG file: one channel if it is grey, else three (red, green, blue). Palettes are
/// resolved, samples widened or narrowed to 8 bits, interlaced rows put in order, and transparent
/// pixels blended with white. Samples are sRGB: 8-bit samples without another colour space in the
/// file, such as those of write_png, are kept exactly. Throws Error naming the file if it is not a
/// PNG, is damaged, or declares more than 2^26 pixels or more than a file of its size can hold.
ImageBytes read_png(const std::string& path);

/// Writes a PNG file with 8 bits per sample, grey or RGB, atomically as write_file_atomically does.
/// Throws Error unless the picture has 1 or 3 channels, 1 to 2^26 pixels, and one byte per channel
/// and pixel.
void write_png(const std::string& path, const ImageBytes& image);

}  // namespace gradus::models
