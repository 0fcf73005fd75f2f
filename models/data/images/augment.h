#pragma once
// Augmentation: random changes that keep what an image shows.

#include <cstdint>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/fields.h"

namespace gradus::models {

/// Random changes, drawn for each image and applied in this order; 0 turns one off.
struct AugmentOptions {
  // Geometric changes, made by a single bilinear resampling; pixels outside the image are 0.
  int64_t shift = 0;       ///< translation by up to this many whole pixels per axis
  double crop_scale = 0;   ///< in (0, 1]: smallest area of a crop, as a fraction of the image
  double crop_aspect = 0;  ///< >= 1: aspect ratios of the crop lie between 1 / this and this
  double flip = 0;         ///< probability of a horizontal flip
  double rotate = 0;       ///< maximum angle to either side, in degrees
  double zoom = 0;         ///< scale by a factor from 1 / (1 + zoom) to 1 + zoom
  double shear = 0;        ///< maximum lean of vertical lines to either side, in degrees
  // Colour changes: these options, in [0, 1], scale the values (brightness), their distance from
  // the mean (contrast) or from grey (saturation) by a random factor from 1 - option to 1 + option.
  // Images without three channels count as grey.
  double brightness = 0, contrast = 0, saturation = 0;  ///< 0: unchanged
  double grey = 0;                                      ///< probability of converting to grey
  double blur = 0;                                      ///< probability of a Gaussian blur
  double blur_sigma = 2;  ///< maximum standard deviation of the blur in pixels; the minimum is 0.1
  double noise = 0;       ///< standard deviation of normal noise
  double erase = 0;       ///< probability of zeroing a rectangle
  double erase_area = 0.3;  ///< its maximum area, as a fraction of the image; the minimum is 0.02

  static Fields fields(AugmentOptions& options);
  /// Throws Error, as augment does, if an option is out of range.
  void check() const;
};

/// Returns images (N, C, H, W) float32 with values from 0 to 1, each randomly changed, as a new
/// tensor of the same shape; no gradient flows through. The changes are a function of (seed, step,
/// id) alone, where ids (N) int64 default to the indices in the batch. They do not depend on the
/// number of threads or the rest of the batch. For two views of an image, pass the steps 2 * step
/// and 2 * step + 1. Colour changes and noise clamp the values to [0, 1], so normalise afterwards.
/// Throws Error on options out of range, other shapes and dtypes, a negative step, and images of
/// more than 2^13 pixels per side.
///
/// Crop, flip, colour and blur for views: Chen et al. 2020, arXiv 2002.05709, appendix A. Erasing:
/// Zhong et al. 2017, arXiv 1708.04896.
Tensor augment(const Tensor& images, const AugmentOptions& options, uint64_t seed, int64_t step,
               const Tensor& ids = {});

/// Resamples images bilinearly: pixel (x, y) of image n (centre: (0, 0)) is read at (x', y'),
///   x' = a x + b y + s,  y' = c x + d y + t     with maps[n] = ((a, b, s), (c, d, t)), in pixels,
/// or is 0 if that is outside the image. Images (N, C, H, W) float32, maps (N, 2, 3) with values
/// from -1e6 to 1e6. Shifts by whole pixels and flips copy pixels exactly.
Tensor warp(const Tensor& images, const Tensor& maps);

}  // namespace gradus::models
