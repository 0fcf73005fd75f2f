#pragma once
// The masked autoencoder: a vision transformer that learns without labels, by reconstructing hidden
// patches. He et al. 2022, arXiv 2111.06377.

#include "gradus/models/vit.h"

namespace gradus::models {

/// Divides images (B, C, H, W) into patches (B, patches, C * patch * patch). Patches are ordered
/// row by row, and pixels by channel, row and column. Throws Error unless `patch` divides height
/// and width.
Tensor patchify(const Tensor& images, int64_t patch);
/// Inverts patchify: patches (B, patches, C * patch * patch) -> images (B, C, H, W). The shape
/// `image` is (C, H, W). Throws Error if the shapes do not match.
Tensor unpatchify(const Tensor& patches, const Shape& image, int64_t patch);

struct MAEConfig {
  ViTConfig encoder = {.classes = 0};  ///< the encoder; encoder.classes must be 0
  int64_t decoder_layers = 2;          ///< decoder blocks
  int64_t decoder_heads = 4;           ///< attention heads; must divide decoder_dim
  int64_t decoder_dim = 32;            ///< embedding size of the decoder
  double mask_ratio = 0.75;            ///< fraction of patches that are hidden; at least one patch
                                       ///< must be hidden and one visible
  bool normalise = true;               ///< normalise each target patch: (pixels - mean) / sqrt(var
                                       ///< + 1e-6), with the unbiased variance; requires patches
                                       ///< of more than one value

  /// Returns the number of hidden patches per image: round(mask_ratio * encoder.patches()).
  int64_t hidden() const;
};

/// The result of an MAE.
struct MAEResult {
  Tensor patches;  ///< predicted: (B, patches, C * patch * patch), normalised if config.normalise
  Tensor hidden;   ///< (B, patches) bool: true for hidden patches
  Tensor loss;     ///< mean squared error over hidden patches
};

/// The model. The encoder reads only the visible patches. The decoder reads the encoder's output,
/// with mask_token in place of each hidden patch and with decoder_positions added.
struct MAE : nn::Module {
  using Config = MAEConfig;
  static constexpr const char* kind = "mae";
  static Fields fields(MAEConfig& config);

  const MAEConfig config;
  ViT encoder;                            ///< kept after training; its features are
                                          ///< encoder.features(images)
  nn::Linear decoder_embed;               ///< encoder dim -> decoder_dim
  const Tensor mask_token;                ///< (1, 1, decoder_dim)
  const Tensor decoder_positions;         ///< (1, 1 + patches, decoder_dim), class token first
  std::vector<nn::Block> decoder_blocks;  ///< pre-norm
  nn::LayerNorm decoder_norm;             ///< applied to the last decoder block's output
  nn::Linear decoder_head;                ///< decoder_dim -> pixels of a patch
  explicit MAE(const MAEConfig& config);

  /// Returns a random permutation of the patches of each image: (batch, patches) int64. The last
  /// config.hidden() patches of each row are the hidden patches. A row depends only on the seed,
  /// the step and the image's id. `ids` (batch) int64 are by default the indices in the batch.
  Tensor order(int64_t batch, uint64_t seed, int64_t step, const Tensor& ids = {}) const;
  /// Hides the last config.hidden() patches of each row of `order`, and reconstructs the images (B,
  /// channels, image, image) from the visible patches. Throws Error for other shapes, an empty
  /// batch, and a row of `order` that is not a permutation.
  MAEResult operator()(const Tensor& images, const Tensor& order) const;

  /// Returns the images with hidden patches filled with `fill`. `hidden` is MAEResult::hidden.
  /// Records no gradients.
  Tensor masked(const Tensor& images, const Tensor& hidden, double fill = 0) const;
  /// Returns the images with hidden patches replaced by their reconstruction. If config.normalise,
  /// the reconstruction gets the mean and standard deviation of the original patch. Records no
  /// gradients.
  Tensor reconstructed(const Tensor& images, const MAEResult& result) const;

 private:
  /// Returns the mean and sqrt(variance + 1e-6) of the pixels of each patch, both (B, patches, 1).
  std::pair<Tensor, Tensor> moments(const Tensor& pixels) const;
};

}  // namespace gradus::models
