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
  int64_t min_shapes = 1, max_shapes = 2;  ///< smallest and largest number of shapes, 1 or 2
  double noise = 0.03;                     ///< largest random change of a value, 0 to 1; white is 1
  uint64_t seed = 0;                       ///< random seed of the pictures
};

/// RGB pictures of coloured shapes, each with a caption that describes it. The label of a picture
/// is the class of the first shape in its caption, for example "red circle".
struct ShapeImages {
  ImageData images;                   ///< pictures and labels
  std::vector<std::string> captions;  ///< one per picture
};

/// Returns n pictures of an endless sequence, beginning with picture number `first`. A picture
/// depends only on the options and its number, so pictures with other numbers can serve as test
/// data. Example:
///   const auto train = draw_shapes(0, 20000), test = draw_shapes(20000, 1000);
/// Shapes are circles, squares, triangles, crosses and diamonds in seven colours, at random
/// positions on a dark background. Each shape lies within a square whose side is a quarter to two
/// fifths of the picture's. Each number of shapes from min_shapes to max_shapes is equally likely.
///
/// The caption of one shape is, for example, "a red circle". The caption of two shapes gives their
/// relation: "above", "below", "left of" or "right of". For example, "a red circle above a blue
/// square" and "a blue square below a red circle" describe the same picture; draw_shapes chooses
/// one of the two at random. Two shapes differ in shape or colour and never touch. Along the axis
/// of their relation, their centres are at least twice as far apart as along the other axis.
///
/// Throws Error unless 0 <= first <= 2^40, n >= 0, the options are in range and the pictures occupy
/// at most 16 GiB.
ShapeImages draw_shapes(int64_t first, int64_t n, const ShapesOptions& options = {});

/// The form and colour of the shapes of one class, for example "red circle".
struct ShapeLook {
  std::string form;           ///< circle, square, triangle, cross or diamond
  std::array<double, 3> rgb;  ///< red, green and blue from 0 to 1
};
/// Returns the form and colour of the class with this name, for example "red circle". Returns
/// nullopt if there is no such class.
std::optional<ShapeLook> shape_of_class(const std::string& name);

/// Returns the caption that describes the same picture but names the two shapes in the other order:
/// "a blue square below a red circle" for "a red circle above a blue square". Returns a caption of
/// one shape unchanged.
std::string swapped_caption(const std::string& caption);

/// Returns all distinct captions that draw_shapes can produce with these options: 35 with one shape
/// (5 forms in 7 colours) and 4,760 with two shapes (35 * 34 ordered pairs in 4 relations). Throws
/// Error if an option is out of range.
std::vector<std::string> shape_captions(const ShapesOptions& options = {});

}  // namespace gradus::models
