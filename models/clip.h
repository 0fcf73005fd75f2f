#pragma once
// CLIP: a joint embedding of images and texts, learned from pairs. Radford et al. 2021, arXiv
// 2103.00020.

#include "gradus/models/data/text/text_batch.h"
#include "gradus/models/vit.h"

namespace gradus::models {

struct CLIPConfig {
  /// Options of the image encoder. image.classes must be 0. image.dropout and image.recompute also
  /// apply to the text encoder.
  ViTConfig image = {.classes = 0};
  int64_t vocab = 0;                      ///< vocabulary size; required
  int64_t context = 16;                   ///< maximum length of a text in tokens, counting [START]
                                          ///< and [END]
  int64_t text_layers = 2;                ///< number of transformer blocks of the text encoder
  int64_t text_heads = 4;                 ///< attention heads of the text encoder; must divide
                                          ///< text_dim
  int64_t text_dim = 64;                  ///< embedding size of the text encoder
  bool causal = true;                     ///< text tokens attend only to themselves and earlier
                                          ///< tokens, as in the paper
  Pooling text_pooling = Pooling::token;  ///< features of a text: output of its last token, or mean
                                          ///< over its tokens
  int64_t shared = 64;                    ///< size of the joint embedding
};

/// The text encoder: token embeddings, learned positions, pre-norm blocks.
struct TextEncoder : nn::Module {
  nn::Embedding tokens;           ///< (vocab, text_dim)
  const Tensor positions;         ///< (1, context, text_dim)
  std::vector<nn::Block> blocks;  ///< pre-norm
  nn::LayerNorm ln_f;             ///< applied to the last block's output
  bool causal;                    ///< tokens attend only to themselves and earlier tokens
  Pooling pooling;                ///< features of a text: output of its last token, or mean over
                                  ///< its tokens
  /// If above 0, backward recomputes the activations of this many blocks at a time, to save memory.
  /// 0 keeps all activations instead.
  int64_t recompute;
  explicit TextEncoder(const CLIPConfig& config);

  /// Returns text features (B, text_dim). Padding is ignored. Throws Error if a text is longer than
  /// CLIPConfig::context.
  Tensor features(const TextBatch& texts) const;
};

/// The model: an image encoder and a text encoder, each with a linear projection into the space of
/// the joint embedding.
struct CLIP : nn::Module {
  using Config = CLIPConfig;
  static constexpr const char* kind = "clip";
  static Fields fields(CLIPConfig& config);

  const CLIPConfig config;
  ViT image;                                     ///< the image encoder
  TextEncoder text;                              ///< the text encoder
  nn::Linear image_projection, text_projection;  ///< into the joint embedding, without biases
  /// Log of the factor that multiplies cosine similarities. Initially log(1 / 0.07).
  const Tensor logit_scale;
  explicit CLIP(const CLIPConfig& config);

  /// Returns unit-length embeddings of images (N, C, H, W): (N, shared).
  Tensor image_features(const Tensor& images) const;
  /// Returns unit-length embeddings of texts (M, T): (M, shared).
  Tensor text_features(const TextBatch& texts) const;
  /// Returns the cosine similarities of N images and M texts, multiplied by min(e^logit_scale,
  /// 100): (N, M). The arguments are unit-length embeddings, (N, shared) and (M, shared). For
  /// zero-shot classification, take the argmax over texts that name the classes. For retrieval,
  /// take the topk along either axis.
  Tensor similarity(const Tensor& image_features, const Tensor& text_features) const;
  /// Returns the contrastive loss of pairs: image i belongs to text i. The loss is the mean of two
  /// cross entropies: of finding each image's text among all texts, and of finding each text's
  /// image among all images. In training mode, logit_scale is first clamped to at most log 100
  /// (section 2.5 of the paper). In evaluation mode, logit_scale is not clamped. Throws Error
  /// unless the number of images equals the number of texts and is at least two.
  Tensor loss(const Tensor& images, const TextBatch& texts) const;
};

}  // namespace gradus::models
