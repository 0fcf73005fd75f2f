#pragma once
// A small convolutional classifier with self-attention over its feature map.

#include <optional>

#include "gradus/models/folder/fields.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/layers.h"

namespace gradus::models {

/// Self-attention over a feature map x (B, C, H, W) with a residual connection:
///   y = x + gamma o,  o_j = sum_i softmax_i(f(x_i) . g(x_j)) h(x_i)
/// i and j are positions of the map; f (keys), g (queries) and h (values) are 1 x 1 convolutions.
/// gamma starts at 0, so that local features are learned first. Zhang et al. 2019 (SAGAN), arXiv
/// 1805.08318, equations 1 to 3, without the paper's projection v of o.
struct SelfAttention2d : nn::Module {
  nn::Conv2d query, key;  ///< C -> max(C / 8, 1)
  nn::Conv2d value;       ///< C -> C
  const Tensor gamma;     ///< a scalar (rank 0)
  explicit SelfAttention2d(int64_t channels);
  Tensor operator()(const Tensor& x) const;
};

struct CNNAttentionConfig {
  int64_t image = 32;     ///< height and width of an image, at least 4
  int64_t channels = 3;   ///< channels of an image, for example 3 for RGB
  int64_t classes = 10;   ///< number of classes; 0 means no head
  int64_t filters = 32;   ///< filters of the first convolution; the second has twice as many
  bool attention = true;  ///< apply self-attention; false gives a plain CNN for comparison

  /// Returns the height and width of the feature map.
  int64_t grid() const { return image / 2 / 2; }
};

/// The model: two blocks, each a 3 x 3 convolution, 2 x 2 max pooling and relu; then
/// self-attention; then a linear layer on the flattened feature map.
struct CNNAttention : nn::Module {
  using Config = CNNAttentionConfig;
  static constexpr const char* kind = "cnn_attention";
  static Fields fields(CNNAttentionConfig& config);

  const CNNAttentionConfig config;
  nn::Conv2d conv1, conv2;                   ///< 3 x 3: channels -> filters -> 2 * filters
  std::optional<SelfAttention2d> attention;  ///< none if config.attention is false
  std::optional<nn::Linear> head;            ///< none if classes is 0
  explicit CNNAttention(const CNNAttentionConfig& config);

  /// Returns image features, the flattened feature map: images (B, channels, image, image) ->
  /// (B, 2 * filters * grid * grid).
  Tensor features(const Tensor& images) const;
  /// Returns the number of features per image.
  int64_t feature_size() const { return 2 * config.filters * config.grid() * config.grid(); }
  /// Returns logits (B, classes). Throws Error if there is no head.
  Tensor operator()(const Tensor& images) const;
  /// Returns the attention map of each query position: (B, grid * grid, grid, grid). Each map sums
  /// to 1. Records no gradients. Throws Error if config.attention is false.
  Tensor attention_maps(const Tensor& images) const;
};

}  // namespace gradus::models
