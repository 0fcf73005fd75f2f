#pragma once
// Pictures in PNG files, by libpng.

#include <string>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

/// A PNG file's picture: of one channel if it is grey, else of three (red, green, blue). Palettes
/// are resolved, fewer bits a sample than 8 widened and 16 narrowed to 8, interlaced rows put in
/// order; what is transparent is laid over white. Samples are sRGB's: 8-bit ones that the file says
/// nothing else of, or that write_png wrote, are taken as they are. Throws Error naming the file if
/// it is no PNG or damaged, and if it has more than 2^26 pixels, or more than its size can hold.
ImageBytes read_png(const std::string& path);

/// Puts a PNG file of 8 bits a sample, grey or RGB, in the place of `path`, atomically as
/// write_file_atomically does. Throws Error unless the picture has 1 or 3 channels, at least one
/// pixel, at most 2^26 of them and a byte for each channel of each.
void write_png(const std::string& path, const ImageBytes& image);

}  // namespace gradus::models
