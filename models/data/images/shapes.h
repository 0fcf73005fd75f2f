#pragma once
// Synthetic pictures of coloured shapes, with captions.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

struct ShapesOptions {
  int64_t size = 32;                       ///< height and width in pixels, 20 to 1024
  int64_t min_shapes = 1, max_shapes = 2;  ///< shapes per picture, 1 or 2; both equally likely
  double noise = 0.03;                     ///< from 0 to 1: the largest random change of a value
  uint64_t seed = 0;                       ///< each seed draws different pictures
};

/// Pictures (N, 3, size, size) with a true caption each. The label is the shape and colour that the
/// caption names first.
struct ShapeImages {
  ImageData images;                   ///< with labels
  std::vector<std::string> captions;  ///< one per picture
};

/// Draws pictures first ... first + n - 1 of an endless sequence. Each is a function of the options
/// and its number alone, so pictures with other numbers can serve as test data.
///   const auto train = draw_shapes(0, 20000), test = draw_shapes(20000, 1000);
/// Shapes are circles, squares, triangles, crosses and diamonds in seven colours on a dark
/// background, at any position; their size is a quarter to two fifths of the picture's. A
/// caption reads "a red circle", or for two shapes, which differ in shape or colour, "a red circle
/// above a blue square" (or "below", "left of", "right of"). Two shapes never touch, and are at
/// least twice as far apart along the caption's axis as along the other. Either shape is named
/// first equally often: "a blue square below a red circle" describes the same picture. Throws Error
/// unless first >= 0, the options are in range and the pictures take at most 16 GB.
ShapeImages draw_shapes(int64_t first, int64_t n, const ShapesOptions& options = {});

/// What a class of drawn shapes looks like.
struct ShapeLook {
  std::string form;           ///< circle, square, triangle, cross or diamond
  std::array<double, 3> rgb;  ///< red, green and blue from 0 to 1
};
/// The look of the class with this name, such as "red circle"; nothing if no shape has it.
std::optional<ShapeLook> shape_of_class(const std::string& name);

/// The caption of the same picture that names the other shape first: "a blue square below a red
/// circle" for "a red circle above a blue square". Returns a caption of one shape unchanged.
std::string swapped_caption(const std::string& caption);

/// All distinct captions that draw_shapes can produce with these options: 35 with one shape (5
/// shapes in 7 colours), 4,760 with two (35 * 34 pairs in 4 relations).
std::vector<std::string> shape_captions(const ShapesOptions& options = {});

}  // namespace gradus::models
