#pragma once
// Augmentation: random changes of an image that do not change what it shows.

#include <cstdint>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/fields.h"

namespace gradus::models {

/// Random changes, chosen for each image and applied in this order. 0 turns a change off.
struct AugmentOptions {
  // Geometric changes are made by a single bilinear resampling. Pixels outside the image are 0.
  int64_t shift = 0;       ///< translation by up to this many whole pixels per axis
  double crop_scale = 0;   ///< in (0, 1]: smallest area of a crop, as a fraction of the image
  double crop_aspect = 0;  ///< >= 1: aspect ratios of the crop are between 1 / this and this
  double flip = 0;         ///< probability of a horizontal flip
  double rotate = 0;       ///< maximum angle to either side, in degrees
  double zoom = 0;         ///< scale by a random factor from 1 / (1 + zoom) to 1 + zoom
  double shear = 0;        ///< maximum slant of vertical lines to either side, in degrees
  // Colour changes. Each option is in [0, 1] and multiplies by a random factor from 1 - option to 1
  // + option: the values (brightness), their distance from the mean (contrast), or their distance
  // from grey (saturation). Images without three channels count as grey.
  double brightness = 0, contrast = 0, saturation = 0;  ///< 0: unchanged
  double grey = 0;                                      ///< probability of converting to grey
  double blur = 0;                                      ///< probability of a Gaussian blur
  double blur_sigma = 2;  ///< maximum standard deviation of the blur in pixels; the minimum is 0.1
  double noise = 0;       ///< standard deviation of normal noise
  double erase = 0;       ///< probability of setting a rectangle to 0
  double erase_area = 0.3;  ///< maximum area of the rectangle, as a fraction of the image; the
                            ///< minimum is 0.02

  static Fields fields(AugmentOptions& options);
  /// Throws Error if an option is out of range, like augment.
  void check() const;
};

/// Returns images (N, C, H, W) float32 with values from 0 to 1, each randomly changed, as a new
/// tensor of the same shape. No gradient flows through it. The changes depend only on (seed, step,
/// id), and not on the number of threads or the rest of the batch. `ids` (N) int64 are by default
/// the indices in the batch. For two views of an image, pass the steps 2 * step and 2 * step + 1.
/// Colour changes and noise clamp the values to [0, 1], so normalise afterwards. Throws Error on
/// options out of range, other shapes and dtypes, a negative step, and images of more than 2^13
/// pixels per side.
///
/// Sources: Chen et al. 2020, arXiv 2002.05709, appendix A (crop, flip, colour and blur for views);
/// Zhong et al. 2017, arXiv 1708.04896 (erasing).
Tensor augment(const Tensor& images, const AugmentOptions& options, uint64_t seed, int64_t step,
               const Tensor& ids = {});

/// Resamples images bilinearly. Pixel (x, y) of image n, measured from the centre (0, 0), is read
/// at (x', y'),
///   x' = a x + b y + s,  y' = c x + d y + t     with maps[n] = ((a, b, s), (c, d, t)), in pixels,
/// or is 0 if (x', y') is outside the image. Images are (N, C, H, W) float32, and maps are (N, 2,
/// 3) with values from -1e6 to 1e6. Shifts by whole pixels and flips copy pixels exactly.
Tensor warp(const Tensor& images, const Tensor& maps);

}  // namespace gradus::models
