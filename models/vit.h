#pragma once
// The vision transformer: it reads an image as a sequence of patches. Dosovitskiy et al. 2021,
// arXiv 2010.11929.

#include <optional>

#include "gradus/models/folder/fields.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

/// How a sequence of outputs becomes one feature vector of an image or text: the output at one
/// token, or the mean of the outputs.
enum class Pooling { token, mean };

struct ViTConfig {
  int64_t image = 32;    ///< height and width of an image
  int64_t channels = 3;  ///< channels of an image, for example 3 for RGB
  int64_t patch = 4;     ///< height and width of a patch; must divide image
  int64_t classes = 10;  ///< number of classes; 0 means no head
  int64_t layers = 4;    ///< number of transformer blocks
  int64_t heads = 4;     ///< attention heads; must divide dim
  int64_t dim = 64;      ///< embedding size
  int64_t hidden = 0;    ///< hidden size of the feed-forward layers; 0 means 4 * dim
  double dropout = 0;    ///< dropout rate of embeddings, attention weights and sublayer outputs
  /// The features of an image: the output of the class token, or the mean output of the patches.
  Pooling pooling = Pooling::token;
  double norm_eps = 1e-5;  ///< epsilon of the norms, added to the variance
  /// If above 0, backward recomputes the activations of this many blocks at a time, to save memory.
  /// 0 keeps all activations instead. save_model() does not store this option.
  int64_t recompute = 0;

  /// Returns the number of patches per image.
  int64_t patches() const { return image / patch * (image / patch); }
};

/// A vision transformer: a class token followed by linear patch embeddings, learned positions, and
/// pre-norm blocks.
struct ViT : nn::Module {
  using Config = ViTConfig;
  static constexpr const char* kind = "vit";
  static Fields fields(ViTConfig& config);

  const ViTConfig config;
  nn::Conv2d patch;                ///< patch embedding: one patch with all its channels -> dim
  const Tensor class_token;        ///< (1, 1, dim)
  const Tensor positions;          ///< (1, 1 + patches, dim), class token first
  nn::Dropout dropout;             ///< applied to the class token and the embedded patches
  std::vector<nn::Block> blocks;   ///< pre-norm
  nn::LayerNorm ln_f;              ///< applied to the last block's output
  std::optional<nn::Linear> head;  ///< dim -> classes; none if classes is 0
  explicit ViT(const ViTConfig& config);

  /// Returns patch embeddings plus positions: images (B, channels, image, image) -> (B, patches,
  /// dim). Patches are ordered row by row. Throws Error for images of another shape.
  Tensor embed(const Tensor& images) const;
  /// The tokens whose outputs encode() returns.
  enum class Tokens { all, class_token };
  /// Returns the encoder's outputs (B, 1 + n, dim): first for the class token, then for the n
  /// patches in `embedded` (B, n, dim). These may be a subset of an image's patches. With
  /// Tokens::class_token, returns only the output for the class token, (B, 1, dim). The last block
  /// then does not compute the outputs for the other tokens (see nn::Block::first).
  Tensor encode(const Tensor& embedded, Tokens tokens = Tokens::all) const;
  /// Returns image features: (B, channels, image, image) -> (B, dim). config.pooling selects the
  /// output of the class token or the mean over patches. With Pooling::token, the class token is
  /// the only query of the last block. To record the attention of all tokens with an
  /// AttentionTrace, call encode(embed(images)) instead.
  Tensor features(const Tensor& images) const;
  /// Returns the number of features per image.
  int64_t feature_size() const { return config.dim; }
  /// Returns logits (B, classes). Throws Error if there is no head.
  Tensor operator()(const Tensor& images) const;
};

namespace detail {
/// Initialises a ViT or a model that contains one. Weights of linear layers and patch embeddings
/// are Glorot-uniform, and biases are 0. Class tokens, mask tokens and positions are normal with
/// standard deviation 0.3, close to that of embedded patches. With the usual 0.02, similar patches
/// cannot be distinguished until the positions have grown. For example, the validation loss of a
/// ViT of width 64 on MNIST after 600 steps is 0.48 with 0.02, but 0.27 with 0.3.
void initialise_vit(nn::Module& module);
}  // namespace detail

}  // namespace gradus::models
