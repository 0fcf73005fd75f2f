#pragma once
// The masked autoencoder: a vision transformer learns from images alone, by painting in what it was
// not shown. He et al. 2022, arXiv 2111.06377.

#include "gradus/models/vit.h"

namespace gradus::models {

/// Images (B, C, H, W) as their patches' pixels: (B, patches, C patch patch), patches from left to
/// right and top to bottom, pixels in the order of the tensor: channel, row, column. Throws Error
/// unless `patch` divides height and width.
Tensor patchify(const Tensor& images, int64_t patch);
/// Back again: of patches (B, patches, C patch patch), images of the shape (C, H, W).
Tensor unpatchify(const Tensor& patches, const Shape& image, int64_t patch);

struct MAEConfig {
  ViTConfig encoder = {.classes = 0};  ///< of the encoder, without a head
  int64_t decoder_layers = 2;          ///< blocks of the decoder
  int64_t decoder_heads = 4;           ///< of their attention; must divide decoder_dim
  int64_t decoder_dim = 32;            ///< numbers that stand for a patch within the decoder
  double mask_ratio = 0.75;            ///< the share of patches that are hidden
  bool normalise = true;  ///< the decoder paints each patch's (pixels - mean) / deviation

  /// Patches of an image that are hidden: mask_ratio of them, rounded.
  int64_t hidden() const;
};

/// What an MAE has painted.
struct MAEResult {
  Tensor patches;  ///< (B, patches, C patch patch), of all patches; as `normalise` says
  Tensor hidden;   ///< (B, patches) bool: what it was not shown
  Tensor loss;     ///< mean over the hidden patches' numbers of (painted - true)^2
};

/// The encoder reads the patches that are shown, and no others. The decoder gets these and, in the
/// place of each of the others, the same mask token; all with positions of its own.
struct MAE : nn::Module {
  using Config = MAEConfig;
  static constexpr const char* kind = "mae";
  static Fields fields(MAEConfig& config);

  const MAEConfig config;
  ViT encoder;                     ///< what the training is for: encoder.features(images)
  nn::Linear decoder_embed;        ///< what the encoder gives -> decoder_dim
  const Tensor mask_token;         ///< (1, 1, decoder_dim)
  const Tensor decoder_positions;  ///< (1, 1 + patches, decoder_dim), the class token's first
  std::vector<nn::Block> decoder_blocks;  ///< pre-norm
  nn::LayerNorm decoder_norm;             ///< of what they give
  nn::Linear decoder_head;                ///< -> a patch's pixels
  explicit MAE(const MAEConfig& config);

  /// Each image's patches in a random order, (batch, patches) int64: those hidden are the last. An
  /// image's order is a function of (seed, step, its id) alone, ids (batch) int64, or its place in
  /// the batch.
  Tensor order(int64_t batch, uint64_t seed, int64_t step, const Tensor& ids = {}) const;
  /// Images (B, channels, image, image), with `order` as above. Throws Error for other shapes, an
  /// empty batch, and an order that does not name each patch once.
  MAEResult operator()(const Tensor& images, const Tensor& order) const;

  /// Pictures, without a gradient: images with `fill` in place of what is hidden, and with what was
  /// painted there.
  Tensor masked(const Tensor& images, const Tensor& hidden, double fill = 0) const;
  /// images with what was painted in place of what is hidden.
  Tensor reconstructed(const Tensor& images, const MAEResult& result) const;

 private:
  /// The mean of each patch's pixels, and sqrt(variance + 1e-6): (B, patches, 1) each.
  std::pair<Tensor, Tensor> moments(const Tensor& pixels) const;
};

}  // namespace gradus::models
