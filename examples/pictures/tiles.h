#pragma once
// Images side by side with words: the data (plot.h draws it).

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// A line of text under each image.
struct TileLine {
  std::string name = {};                ///< at the left of each row of images
  std::vector<std::string> texts = {};  ///< one per image; those that do not fit are shortened
};

/// Images of one size, magnified and laid out row by row.
struct Tiles {
  std::string path = {}, title = {};
  Tensor images = {};                      ///< (N, 1 or 3, H, W), from 0 to 1
  int64_t across = 8;                      ///< images in a row
  std::vector<std::string> headings = {};  ///< above the columns: none or `across`
  std::vector<TileLine> lines = {};
};

/// Throws Error unless there are images (N, 1 or 3, H, W) with N > 0, `across` > 0, no heading or
/// one per column, and one text per image in each line.
void check_tiles(const Tiles& tiles);

/// The size of a picture in pixels.
struct Canvas {
  int64_t width = 0, height = 0;
};

/// Where images and words are drawn, in pixels from the upper left corner.
struct TileLayout : Canvas {
  int64_t font = 9, line = 16;           // of the text, and the distance of its lines
  int64_t across, most;                  // images in a row; characters that fit under each
  int64_t scale;                         // factor by which images are magnified, to about 96 pixels
  int64_t image_width, image_height;     // magnified
  int64_t names, first_left, first_top;  // the right edge of lines' names; of the first image
  int64_t step_right = 0, step_down = 0;  // from image to image

  int64_t left(int64_t i) const { return first_left + i % across * step_right; }
  int64_t top(int64_t i) const { return first_top + i / across * step_down; }
};
TileLayout layout_of(const Tiles& tiles);

/// Writes the images without any words as a PNG file. Throws Error if that fails.
void write_without_words(const Tiles& tiles);

}  // namespace gradus
