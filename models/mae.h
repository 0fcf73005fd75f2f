#pragma once
// The masked autoencoder: a vision transformer that learns without labels, by reconstructing hidden
// patches. He et al. 2022, arXiv 2111.06377.

#include "gradus/models/vit.h"

namespace gradus::models {

/// Divides images (B, C, H, W) into patches (B, patches, C * patch * patch), ordered row by row.
/// The values of a patch are ordered by channel, then row, then column. Throws Error unless `patch`
/// divides height and width.
Tensor patchify(const Tensor& images, int64_t patch);
/// Inverts patchify: patches (B, patches, C * patch * patch) -> images (B, C, H, W). `image` is the
/// shape (C, H, W) of an image. Throws Error if the shapes do not match.
Tensor unpatchify(const Tensor& patches, const Shape& image, int64_t patch);

struct MAEConfig {
  ViTConfig encoder = {.classes = 0};  ///< the encoder; encoder.classes must be 0
  int64_t decoder_layers = 2;          ///< decoder blocks
  int64_t decoder_heads = 4;           ///< attention heads of the decoder; must divide decoder_dim
  int64_t decoder_dim = 32;            ///< embedding size of the decoder
  /// Fraction of patches that are hidden. At least one patch must be hidden and one visible.
  double mask_ratio = 0.75;
  /// Normalise each target patch: (pixels - mean) / sqrt(var + 1e-6), with the unbiased variance.
  /// Requires patches of more than one value.
  bool normalise = true;

  /// Returns the number of hidden patches per image: round(mask_ratio * encoder.patches()).
  int64_t hidden() const;
};

/// The result of an MAE.
struct MAEResult {
  Tensor patches;  ///< predictions (B, patches, C * patch * patch); normalised if config.normalise
  Tensor hidden;   ///< (B, patches) bool: true for hidden patches
  Tensor loss;     ///< mean squared error of the predictions for hidden patches
};

/// A masked autoencoder. The encoder reads only the visible patches. The decoder reads the
/// encoder's output, with mask_token in place of each hidden patch and with decoder_positions
/// added.
struct MAE : nn::Module {
  using Config = MAEConfig;
  static constexpr const char* kind = "mae";
  static Fields fields(MAEConfig& config);

  const MAEConfig config;
  ViT encoder;                            ///< kept after training: use encoder.features(images)
  nn::Linear decoder_embed;               ///< encoder dim -> decoder_dim
  const Tensor mask_token;                ///< (1, 1, decoder_dim)
  const Tensor decoder_positions;         ///< (1, 1 + patches, decoder_dim), class token first
  std::vector<nn::Block> decoder_blocks;  ///< pre-norm
  nn::LayerNorm decoder_norm;             ///< applied to the last decoder block's output
  nn::Linear decoder_head;                ///< decoder_dim -> channels * patch * patch
  explicit MAE(const MAEConfig& config);

  /// Returns a random permutation of the patches of each image: (batch, patches) int64. The last
  /// config.hidden() patches of each row are the hidden patches. A row depends only on `seed`,
  /// `step` and the image's id. `ids` (batch) int64 holds the images' ids; by default, they are 0,
  /// 1, 2, and so on.
  Tensor order(int64_t batch, uint64_t seed, int64_t step, const Tensor& ids = {}) const;
  /// Reconstructs the images (B, channels, image, image) from their visible patches. Each row of
  /// `order` (B, patches), int64, lists the patches of an image; the last config.hidden() of them
  /// are hidden. Throws Error if a tensor has another shape, if the batch is empty, or if a row of
  /// `order` is not a permutation of the patches.
  MAEResult operator()(const Tensor& images, const Tensor& order) const;

  /// Returns the images with the value `fill` in all hidden patches. `hidden` is MAEResult::hidden.
  /// Records no gradients.
  Tensor masked(const Tensor& images, const Tensor& hidden, double fill = 0) const;
  /// Returns the images with each hidden patch replaced by its reconstruction. If config.normalise
  /// is true, the reconstruction is scaled to the mean and standard deviation of the original
  /// patch. Records no gradients.
  Tensor reconstructed(const Tensor& images, const MAEResult& result) const;

 private:
  /// Returns the mean and sqrt(variance + 1e-6) of the pixels of each patch, both (B, patches, 1).
  std::pair<Tensor, Tensor> moments(const Tensor& pixels) const;
};

}  // namespace gradus::models
