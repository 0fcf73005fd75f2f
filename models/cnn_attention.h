#pragma once
// A small convolutional classifier whose places look at each other before it answers.

#include <optional>

#include "gradus/models/folder/fields.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/layers.h"

namespace gradus::models {

/// Self-attention over a feature map x (B, C, H, W), added to it:
///   y = x + gamma o,  o_j = sum_i softmax_i(f(x_i) . g(x_j)) h(x_i)
/// with 1 x 1 convolutions f (keys), g (queries) and h (values), and gamma 0 at first, so that places
/// learn from their neighbours before they look further. Zhang et al. 2019 (SAGAN), arXiv 1805.08318,
/// equations 1 to 3, its values mapped once.
struct SelfAttention2d : nn::Module {
  nn::Conv2d query, key;  ///< C -> C / 8, at least 1
  nn::Conv2d value;       ///< C -> C
  const Tensor gamma;     ///< of rank 0
  explicit SelfAttention2d(int64_t channels);
  Tensor operator()(const Tensor& x) const;
};

struct CNNAttentionConfig {
  int64_t image = 32;     ///< height and width, 4 at least
  int64_t channels = 3;   ///< 1: grey; 3: red, green, blue
  int64_t classes = 10;   ///< 0: an encoder alone, without a head
  int64_t filters = 32;   ///< of the first convolution; the second has twice as many
  bool attention = true;  ///< false: the same without, to compare

  /// Places along height and along width of the map that attention works on.
  int64_t grid() const { return image / 2 / 2; }
};

/// Twice a 3 x 3 convolution, the largest of 2 x 2 and relu; self-attention; a linear layer of all
/// places.
struct CNNAttention : nn::Module {
  using Config = CNNAttentionConfig;
  static constexpr const char* kind = "cnn_attention";
  static Fields fields(CNNAttentionConfig& config);

  const CNNAttentionConfig config;
  nn::Conv2d conv1, conv2;                   ///< 3 x 3: channels -> filters -> 2 filters
  std::optional<SelfAttention2d> attention;  ///< none if the configuration says so
  std::optional<nn::Linear> head;            ///< none of an encoder alone
  explicit CNNAttention(const CNNAttentionConfig& config);

  /// What stands for an image, its map: (B, channels, image, image) -> (B, 2 filters grid grid).
  Tensor features(const Tensor& images) const;
  /// How many numbers features() gives an image.
  int64_t feature_size() const { return 2 * config.filters * config.grid() * config.grid(); }
  /// Logits (B, classes). Throws Error for an encoder alone.
  Tensor operator()(const Tensor& images) const;
  /// How much each place looks at each: (B, grid grid, grid, grid), the second axis the place that
  /// looks, each one's sum 1; outside the graph. Throws Error if there is no attention.
  Tensor attention_maps(const Tensor& images) const;
};

}  // namespace gradus::models
