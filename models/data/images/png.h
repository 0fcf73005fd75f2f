#pragma once
// Reads and writes PNG files with libpng.

#include <string>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// Returns the picture in a PNG file. It has one channel if the file is grey, otherwise three (red,
/// green, blue). Palettes are resolved, samples converted to 8 bits, interlaced rows put in order,
/// and transparent pixels blended with white. Samples are converted to the gamma of sRGB, but not
/// to its primaries. If the file declares no gamma or the gamma of sRGB, 8-bit samples of opaque
/// pixels are unchanged. (Files from write_png declare the gamma of sRGB.)
///
/// Throws Error, naming the file, if the file cannot be read, is not a PNG file, ends before its
/// IEND chunk or cannot be decoded. Also throws Error if a chunk has a wrong CRC, or if the file
/// declares more than 2^26 pixels or more than a file of its size can hold.
ImageBytes read_png(const std::string& path);

/// Writes a grey or RGB picture to a PNG file with 8 bits per sample. Replaces an existing file
/// atomically: after an Error or a crash, the file is either unchanged or complete. Throws Error
/// unless the picture has 1 or 3 channels, 1 to 2^26 pixels, at most 10^6 pixels per side (libpng's
/// limit), and one byte per channel and pixel. Also throws Error if the file cannot be written.
void write_png(const std::string& path, const ImageBytes& image);

}  // namespace gradus::models
