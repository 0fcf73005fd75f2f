#pragma once
// The vision transformer: an image as a sequence of patches. Dosovitskiy et al. 2021, arXiv
// 2010.11929.

#include <optional>

#include "gradus/models/folder/fields.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

/// What stands for an image: its class token's features, or the mean of its patches'.
enum class Pooling { token, mean };

struct ViTConfig {
  int64_t image = 32;    ///< height and width
  int64_t channels = 3;  ///< 1: grey; 3: red, green, blue
  int64_t patch = 4;     ///< height and width; must divide image
  int64_t classes = 10;  ///< 0: an encoder alone, without a head
  int64_t layers = 4;    ///< blocks
  int64_t heads = 4;     ///< of their attention; must divide dim
  int64_t dim = 64;      ///< numbers that stand for a patch
  int64_t hidden = 0;    ///< of the feed-forward layers; 0: 4 dim
  double dropout = 0;    ///< of embeddings, attention weights and what is added to the stream
  Pooling pooling =
      Pooling::token;      ///< an image's features: the class token's, or the patches' mean
  double norm_eps = 1e-5;  ///< what the norms add to the variance

  /// How many patches an image has.
  int64_t patches() const { return image / patch * (image / patch); }
};

/// Patches through a linear map, a class token before them, learned positions, pre-norm blocks.
struct ViT : nn::Module {
  using Config = ViTConfig;
  static constexpr const char* kind = "vit";
  static Fields fields(ViTConfig& config);

  const ViTConfig config;
  nn::Conv2d patch;                ///< a patch of all channels -> dim
  const Tensor class_token;        ///< (1, 1, dim)
  const Tensor positions;          ///< (1, 1 + patches, dim), the class token's first
  nn::Dropout dropout;             ///< of embedded patches
  std::vector<nn::Block> blocks;   ///< pre-norm
  nn::LayerNorm ln_f;              ///< of what the blocks give
  std::optional<nn::Linear> head;  ///< dim -> classes; none of an encoder alone
  explicit ViT(const ViTConfig& config);

  /// Each patch of images (B, channels, image, image) with its position: (B, patches, dim), from
  /// left to right and top to bottom. Throws Error for images of another shape.
  Tensor embed(const Tensor& images) const;
  /// Tokens that encode() returns.
  enum class Tokens { all, class_token };
  /// The blocks' output for the class token and embedded patches (B, n, dim), any subset of an
  /// image's: (B, 1 + n, dim), or with Tokens::class_token (B, 1, dim), where the last block computes
  /// no other token (see nn::Block::first).
  Tensor encode(const Tensor& embedded, Tokens tokens = Tokens::all) const;
  /// Features of an image as config.pooling says: (B, channels, image, image) -> (B, dim). With
  /// Pooling::token, an AttentionTrace sees one query of the last block, the class token; to trace
  /// all, call encode(embed(images)).
  Tensor features(const Tensor& images) const;
  /// How many numbers features() gives an image.
  int64_t feature_size() const { return config.dim; }
  /// Logits (B, classes). Throws Error for an encoder alone.
  Tensor operator()(const Tensor& images) const;
};

namespace detail {
/// Draws a module's parameters as a ViT's: linear maps uniform after Glorot, those of patches too;
/// biases 0; tables normal with standard deviation 0.3, about that of embedded patches. The usual
/// 0.02 leaves patches that look alike without a place of their own until positions have grown: on
/// MNIST a ViT of width 64 had a validation loss of 0.48 after 600 steps, for 0.27.
void initialise_vit(nn::Module& module);
}  // namespace detail

}  // namespace gradus::models
