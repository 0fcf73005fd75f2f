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
  int64_t min_shapes = 1, max_shapes = 2;  ///< minimum and maximum number of shapes per picture, 1
                                           ///< or 2; each number in this range is equally likely
  double noise = 0.03;                     ///< each value changes at random by up to this, 0 to 1;
                                           ///< white is 1
  uint64_t seed = 0;                       ///< determines the pictures
};

/// Pictures (N, 3, size, size), each with a true caption. The label of a picture is its class: the
/// colour and shape that its caption names first.
struct ShapeImages {
  ImageData images;                   ///< with labels
  std::vector<std::string> captions;  ///< one per picture
};

/// Draws n pictures of an endless sequence, beginning with number `first`. A picture depends only
/// on the options and its number, so pictures with other numbers can serve as test data. Example:
///   const auto train = draw_shapes(0, 20000), test = draw_shapes(20000, 1000);
/// Shapes are circles, squares, triangles, crosses and diamonds in seven colours on a dark
/// background, at any position. Each lies within a square whose side is a quarter to two fifths of
/// the picture's. The caption of one shape is, for example, "a red circle". Two shapes in a picture
/// differ in shape or colour. Their caption is, for example, "a red circle above a blue square" or,
/// equally often for such a picture, "a blue square below a red circle"; other relations are "left
/// of" and "right of". Two shapes never touch, and their centres are at least twice as far apart
/// along the caption's axis as along the other axis. Throws Error unless 0 <= first <= 2^40,
/// n >= 0, the options are in range and the pictures occupy at most 16 GiB.
ShapeImages draw_shapes(int64_t first, int64_t n, const ShapesOptions& options = {});

/// The form and colour of a class of drawn shapes.
struct ShapeLook {
  std::string form;           ///< circle, square, triangle, cross or diamond
  std::array<double, 3> rgb;  ///< red, green and blue from 0 to 1
};
/// Returns the form and colour of the class with this name, for example "red circle", or nullopt if
/// there is no such class.
std::optional<ShapeLook> shape_of_class(const std::string& name);

/// Returns the other caption of the same picture, with the two shapes swapped and their relation
/// inverted: "a blue square below a red circle" for "a red circle above a blue square". Returns a
/// caption of one shape unchanged.
std::string swapped_caption(const std::string& caption);

/// Returns all distinct captions of draw_shapes with these options: 35 with one shape (5 shapes in
/// 7 colours), 4,760 with two shapes (35 * 34 pairs in 4 relations). Throws Error on options out of
/// range.
std::vector<std::string> shape_captions(const ShapesOptions& options = {});

}  // namespace gradus::models
