#pragma once
// Augmentation: random changes of an image that do not change what it shows.

#include <cstdint>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/fields.h"

namespace gradus::models {

/// Random changes, chosen separately for each image. 0 turns a change off. Geometric changes come
/// first, then the others in the order of this list.
struct AugmentOptions {
  // Geometric changes: a single bilinear resampling that crops, zooms, rotates, shears, flips and
  // shifts, in this order. Pixels outside the image are 0.
  int64_t shift = 0;       ///< translation by up to this many whole pixels per axis
  double crop_scale = 0;   ///< in (0, 1]: minimum area of the crop, as a fraction of the image
  double crop_aspect = 0;  ///< at least 1: the crop's aspect ratio, divided by the image's, is from
                           ///< 1 / crop_aspect to crop_aspect, but never so extreme that the crop
                           ///< exceeds the image; no effect unless 0 < crop_scale < 1
  double flip = 0;         ///< probability of a horizontal flip
  double rotate = 0;       ///< maximum angle to either side, in degrees
  double zoom = 0;         ///< scale by a random factor from 1 / (1 + zoom) to 1 + zoom
  double shear = 0;        ///< maximum slant of vertical lines to either side, in degrees
  // Colour changes. An option v in [0, 1] multiplies the values (brightness), their distance from
  // the image's mean grey level (contrast) or their distance from the pixel's grey level
  // (saturation) by a random factor from 1 - v to 1 + v. Saturation and grey do not change images
  // without three channels.
  double brightness = 0, contrast = 0, saturation = 0;  ///< 0: unchanged
  double grey = 0;                                      ///< probability of converting to grey
  double blur = 0;                                      ///< probability of a Gaussian blur
  double blur_sigma = 2;  ///< maximum standard deviation of the blur in pixels; the minimum is 0.1
  double noise = 0;       ///< standard deviation of added normal noise; white is 1
  double erase = 0;       ///< probability of setting a rectangle to 0
  double erase_area = 0.3;  ///< maximum area of the rectangle, as a fraction of the image, before
                            ///< its sides are rounded to whole pixels and limited to the image's;
                            ///< the minimum is 0.02

  static Fields fields(AugmentOptions& options);
  /// Throws Error if an option is outside the limits that fields() states, or if
  /// 0 < crop_aspect < 1.
  void check() const;
};

/// Returns randomly changed copies of images (N, C, H, W) float32 with values from 0 to 1. No
/// gradient flows through the copies. The changes of an image depend only on its size, the options
/// and (seed, step, id), not on the number of threads or the rest of the batch. `ids` (N) int64 are
/// by default the indices in the batch. For two views of an image in training step i, pass the
/// steps 2 i and 2 i + 1. Colour changes and noise clamp the values to [0, 1], so normalise
/// afterwards. Throws Error on options out of range, other shapes and dtypes, a negative step, and
/// images of more than 2^13 pixels per side.
///
/// Sources: Chen et al. 2020, arXiv 2002.05709, appendix A (crop, flip, colour and blur for views);
/// Zhong et al. 2017, arXiv 1708.04896 (erasing).
Tensor augment(const Tensor& images, const AugmentOptions& options, uint64_t seed, int64_t step,
               const Tensor& ids = {});

/// Resamples images bilinearly. Output pixel (x, y) of image n is the input at (x', y'),
///   x' = a x + b y + s,  y' = c x + d y + t     with maps[n] = ((a, b, s), (c, d, t)), in pixels,
/// where (0, 0) is the centre of the image and y grows downwards. Outside the image, the input is
/// 0. Images are (N, C, H, W) float32 with at most 2^13 pixels per side, and maps are (N, 2, 3)
/// with values from -1e6 to 1e6. Shifts by whole pixels and flips copy pixels exactly. No gradient
/// flows through the result. Throws Error on other images and maps.
Tensor warp(const Tensor& images, const Tensor& maps);

}  // namespace gradus::models
