#pragma once
// Augmentation: what an image may be changed in without becoming another.

#include <cstdint>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/folder/fields.h"

namespace gradus::models {

/// What is drawn for each image anew; 0 leaves it out. In this order:
struct AugmentOptions {
  // Where each pixel comes from: all as one bilinear resampling, with 0 outside the image.
  int64_t shift = 0;      ///< moved by up to so many pixels, whole ones, along each axis
  double crop_scale = 0;  ///< in (0, 1]: a part of at least this share of the area fills the image
  double crop_aspect =
      0;              ///< >= 1: the part's sides are in ratios up to this, and down to 1 / this
  double flip = 0;    ///< probability of exchanging left and right
  double rotate = 0;  ///< degrees, up to so many to either side
  double zoom = 0;    ///< scaled by a factor from 1 / (1 + zoom) to 1 + zoom
  double shear = 0;   ///< degrees by which upright lines lean, to either side
  // Colours: multiplied by, moved away from their mean by, moved away from grey by a factor from
  // 1 - this to 1 + this, in [0, 1]. What is not of three channels is grey.
  double brightness = 0, contrast = 0, saturation = 0;  ///< 0: as they are
  double grey = 0;                                      ///< probability of losing all colour
  double blur = 0;                                      ///< probability of a Gaussian blur
  double blur_sigma = 2;                                ///< of 0.1 to this many pixels
  double noise = 0;                                     ///< standard deviation of normal noise
  double erase = 0;                                     ///< probability of a rectangle becoming 0
  double erase_area = 0.3;                              ///< of 0.02 to this share of the area

  static Fields fields(AugmentOptions& options);
};

/// Images (N, C, H, W) float32 of numbers from 0 to 1, each changed as drawn: new ones, of the same
/// shape, without a gradient. An image's draws are a function of (seed, step, its id) alone, ids (N)
/// being int64, or its place in the batch: the same at any number of threads and in any batch. For
/// two views use two steps: augment(x, o, seed, 2 * step) and (..., 2 * step + 1). Colours and noise
/// end with a clamp to [0, 1]; so normalise after, not before. Throws Error on options out of range,
/// other shapes and dtypes, a step below 0, and images of more than 2^13 pixels a side.
///
/// Crop, flip, colour and blur as views: Chen et al. 2020, arXiv 2002.05709, appendix A. Erasing:
/// Zhong et al. 2017, arXiv 1708.04896.
Tensor augment(const Tensor& images, const AugmentOptions& options, uint64_t seed, int64_t step,
               const Tensor& ids = {});

/// The resampling alone: pixel (x, y) of image n, from its centre, is bilinearly read at
///   x' = a x + b y + s,  y' = c x + d y + t     with maps[n] = ((a, b, s), (c, d, t)), in pixels,
/// and 0 outside. Images (N, C, H, W) float32, maps (N, 2, 3) of numbers from -1e6 to 1e6. Whole
/// shifts and flips move pixels as they are.
Tensor warp(const Tensor& images, const Tensor& maps);

}  // namespace gradus::models
