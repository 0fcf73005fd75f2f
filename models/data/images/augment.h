#pragma once
// Image augmentation: random changes that preserve what an image shows.

#include <cstdint>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/fields.h"

namespace gradus::models {

/// Random changes, chosen separately for each image. The value 0 turns a change off. Geometric
/// changes are applied first, then the other changes in the order of the members. An erased
/// rectangle has a random area, from 0.02 to erase_area times the image's area. Its sides are then
/// rounded to whole pixels and, if necessary, shortened to fit into the image.
struct AugmentOptions {
  // Geometric changes: a single bilinear resampling that crops, zooms, rotates, shears, flips and
  // shifts, in this order. Pixels outside the image are 0. With a crop_aspect of 2, for example,
  // the crop's aspect ratio is from half to twice the image's. A crop never exceeds the image, so
  // crop_aspect has an effect only if 0 < crop_scale < 1.
  int64_t shift = 0;       ///< maximum translation along each axis, in whole pixels
  double crop_scale = 0;   ///< minimum area of the crop as a fraction of the image; 0: no crop
  double crop_aspect = 0;  ///< maximum factor on the aspect ratio, at least 1; 0: no change
  double flip = 0;         ///< probability of a horizontal flip
  double rotate = 0;       ///< maximum rotation in either direction, in degrees
  double zoom = 0;         ///< random scale factor from 1 / (1 + zoom) to 1 + zoom
  double shear = 0;        ///< maximum slant of vertical lines to either side, in degrees
  // Colour changes. For an option v in [0, 1], the random factor is from 1 - v to 1 + v.
  //   brightness  multiplies each value by the factor
  //   contrast    multiplies each value's distance from the image's mean grey level
  //   saturation  multiplies each value's distance from the grey level of its own pixel
  // saturation and grey change only images with three channels.
  double brightness = 0, contrast = 0, saturation = 0;  ///< 0 to 1; 0: no change
  double grey = 0;                                      ///< probability of converting to grey
  double blur = 0;                                      ///< probability of a Gaussian blur
  double blur_sigma = 2;  ///< maximum standard deviation of the blur in pixels; the minimum is 0.1
  double noise = 0;       ///< standard deviation of added Gaussian noise; white is 1
  double erase = 0;       ///< probability of setting a random rectangle to 0
  double erase_area = 0.3;  ///< maximum area of the rectangle as a fraction of the image

  static Fields fields(AugmentOptions& options);
  /// Throws Error unless each option is in its range (see fields()) and crop_aspect is 0 or at
  /// least 1.
  void check() const;
};

/// Returns randomly changed copies of images (N, C, H, W) float32 with values from 0 to 1. Colour
/// changes and noise clamp the values to this range, so normalise afterwards. No gradient flows
/// through the copies.
///
/// The changes of an image depend only on its size, the options, `seed`, `step` and the image's id.
/// They do not depend on the number of threads or on the rest of the batch. `ids` (N) int64
/// contains the id of each image; by default, the ids are 0 to N - 1. For two views of each image
/// in training step i, call augment with the steps 2 i and 2 i + 1.
///
/// Throws Error if an option is out of range, if the images or ids have another shape or dtype, if
/// `step` is negative, or if a side of the images exceeds 2^13 pixels.
///
/// Sources: Chen et al. 2020, arXiv 2002.05709, appendix A (crop, flip, colour and blur for views);
/// Zhong et al. 2017, arXiv 1708.04896 (erasing).
Tensor augment(const Tensor& images, const AugmentOptions& options, uint64_t seed, int64_t step,
               const Tensor& ids = {});

/// Returns bilinearly resampled images. The value of pixel (x, y) in output image n is that of
/// input image n at the position (x', y'):
///   x' = a x + b y + s,  y' = c x + d y + t     with maps[n] = ((a, b, s), (c, d, t)).
/// Coordinates are in pixels; (0, 0) is the centre of the image, and y grows downwards. Outside the
/// image, the input is 0. Images are (N, C, H, W) float32 with at most 2^13 pixels per side. Maps
/// are (N, 2, 3) with values from -1e6 to 1e6. Shifts by whole pixels and flips copy pixels
/// exactly. No gradient flows through the result. Throws Error if the images or the maps do not
/// have this form.
Tensor warp(const Tensor& images, const Tensor& maps);

}  // namespace gradus::models
