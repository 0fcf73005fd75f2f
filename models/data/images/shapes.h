#pragma once
// Pictures of coloured shapes with captions that the library draws itself.

#include <cstdint>
#include <string>
#include <vector>

#include "gradus/models/data/images/images.h"

namespace gradus::models {

struct ShapesOptions {
  int64_t size = 32;                       ///< height and width in pixels, 20 to 1024
  int64_t min_shapes = 1, max_shapes = 2;  ///< of a picture: 1 or 2, each as likely
  double noise = 0.03;  ///< what each number of a pixel is moved by at most, in [0, 1]
  uint64_t seed = 0;    ///< another seed draws other pictures
};

/// Pictures (N, 3, size, size), and a true sentence about each. The label is the shape and colour
/// that the caption names first: of one shape alone, what the picture shows.
struct ShapeImages {
  ImageData images;                   ///< with labels
  std::vector<std::string> captions;  ///< one a picture
};

/// Pictures first ... first + n - 1 of the endless row that the options determine: each is a
/// function of the options and its number alone, so pictures of other numbers are held out.
///   const auto train = draw_shapes(0, 20000), test = draw_shapes(20000, 1000);
/// Circles, squares, triangles, crosses and diamonds in seven colours on a dark ground, anywhere and
/// of any size from a quarter to two fifths of the picture: "a red circle", or two that differ in
/// shape or colour: "a red circle above a blue square", "below", "left of", "right of". Two shapes
/// never touch; along the axis that the caption names they lie at least twice as far apart as along
/// the other. Either is named first as often, so "a blue square below a red circle" is as true of
/// that picture. Throws Error unless first >= 0, the options are in range and the pictures no more than 16 GB.
ShapeImages draw_shapes(int64_t first, int64_t n, const ShapesOptions& options = {});

/// What is as true of the same picture: of "a red circle above a blue square" that "a blue square below
/// a red circle". A caption of one shape is given back.
std::string turned_caption(const std::string& caption);

/// All captions that draw_shapes can give with these options, each once: 35 of one shape, 4,760 of
/// two.
std::vector<std::string> shape_captions(const ShapesOptions& options = {});

}  // namespace gradus::models
