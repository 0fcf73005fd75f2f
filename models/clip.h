#pragma once
// CLIP: images and texts in one space, learned from pairs of both. Radford et al. 2021, arXiv
// 2103.00020.

#include "gradus/models/data/text/text_batch.h"
#include "gradus/models/vit.h"

namespace gradus::models {

struct CLIPConfig {
  ViTConfig image = {.classes = 0};  ///< of the encoder of images
  int64_t vocab = 0;                 ///< tokens that there are; must be given
  int64_t context = 16;              ///< the most tokens of a text
  int64_t text_layers = 2;           ///< blocks of the text encoder
  int64_t text_heads = 4;            ///< of their attention; must divide text_dim
  int64_t text_dim = 64;             ///< numbers that stand for a token
  bool causal = true;                ///< a token sees those before it, as in the paper; else all
  Pooling text_pooling = Pooling::token;  ///< a text's features: its last token's, or the mean
  int64_t shared = 64;                    ///< numbers of the space of both
};

/// Tokens with learned positions through pre-norm blocks.
struct TextEncoder : nn::Module {
  nn::Embedding tokens;           ///< (vocab, text_dim)
  const Tensor positions;         ///< (1, context, text_dim)
  std::vector<nn::Block> blocks;  ///< pre-norm
  nn::LayerNorm ln_f;             ///< of what the blocks give
  bool causal;                    ///< a token sees those before it
  Pooling pooling;                ///< the last token's features, or the mean
  explicit TextEncoder(const CLIPConfig& config);

  /// What stands for a text: (B, text_dim). [PAD] is not read.
  Tensor features(const TextBatch& texts) const;
};

/// Two encoders, and a linear map of each into the space of both.
struct CLIP : nn::Module {
  using Config = CLIPConfig;
  static constexpr const char* kind = "clip";
  static Fields fields(CLIPConfig& config);

  const CLIPConfig config;
  ViT image;                                     ///< an encoder alone
  TextEncoder text;                              ///< as image, of texts
  nn::Linear image_projection, text_projection;  ///< without biases
  const Tensor logit_scale;  ///< s: cosines are multiplied by e^s; at first log(1 / 0.07)
  explicit CLIP(const CLIPConfig& config);

  /// Vectors of length 1: images (N, C, H, W) -> (N, shared).
  Tensor image_features(const Tensor& images) const;
  /// Texts (M, T) -> (M, shared).
  Tensor text_features(const TextBatch& texts) const;
  /// How well each image fits each text, from the features of both: cosines times e^s, at most 100,
  /// (N, M). Zero-shot classification is its argmax over the classes' names as texts; retrieval its
  /// topk, over either axis.
  Tensor similarity(const Tensor& image_features, const Tensor& text_features) const;
  /// The mean of the cross entropies of each image's own text and of each text's own image. In
  /// training it first sets s back to log 100 where an update led it further (section 2.5). Throws
  /// Error unless there are two pairs or more.
  Tensor loss(const Tensor& images, const TextBatch& texts) const;
};

}  // namespace gradus::models
