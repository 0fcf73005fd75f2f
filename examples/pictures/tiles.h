#pragma once
// Images in a grid, with text: their data and layout (plot.h draws them).

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// A line of text under each image.
struct TileLine {
  std::string name = {};                ///< shown at the left of each row of images
  std::vector<std::string> texts = {};  ///< one per image; shortened if it does not fit
};

/// Images of one size, magnified and laid out row by row.
struct Tiles {
  std::string path = {}, title = {};
  Tensor images = {};                      ///< (N, 1 or 3, H, W), from 0 to 1
  int64_t across = 8;                      ///< images in a row
  std::vector<std::string> headings = {};  ///< texts above the columns: none, or one per column
  std::vector<TileLine> lines = {};
};

/// Throws Error if the images are empty or not (N, 1 or 3, H, W), if `across` is below 1, if there
/// are headings but not one per column, or if an entry of `lines` does not have one text per image.
void check_tiles(const Tiles& tiles);

/// The size of a picture in pixels.
struct Canvas {
  int64_t width = 0, height = 0;
};

/// Where images and text are drawn, in pixels from the upper left corner.
struct TileLayout : Canvas {
  int64_t font = 9, line = 16;            // font size, and height of a line of text
  int64_t across, most;                   // images in a row; characters that fit under an image
  int64_t scale;                          // magnification: 96 / image height, at least 1
  int64_t image_width, image_height;      // after magnification
  int64_t names, first_left, first_top;   // right edge of TileLine::name; top left of image 0
  int64_t step_right = 0, step_down = 0;  // distance from image to image

  int64_t left(int64_t i) const { return first_left + i % across * step_right; }
  int64_t top(int64_t i) const { return first_top + i / across * step_down; }
};
/// Returns the layout of tiles that pass check_tiles().
TileLayout layout_of(const Tiles& tiles);

/// Writes the images without text as a PNG file. Throws Error on failure.
void write_without_words(const Tiles& tiles);

}  // namespace gradus
