#pragma once
// BERT: an encoder that is pre-trained by masked-word and next-sentence prediction, then
// fine-tuned. Devlin et al. 2019, arXiv 1810.04805.

#include "gradus/core/ops/loss.h"
#include "gradus/models/data/text/masked_pairs.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

struct BertConfig {
  int64_t vocab = 0;      ///< vocabulary size; required
  int64_t context = 128;  ///< maximum length of an input, in tokens
  int64_t segments = 2;   ///< number of segment embeddings; 2 for pairs of texts
  int64_t layers = 4;     ///< number of transformer blocks
  int64_t heads = 4;      ///< attention heads; must divide dim
  int64_t dim = 128;      ///< embedding size
  int64_t hidden = 0;     ///< hidden size of the feed-forward layers; 0 means 4 * dim
  double dropout = 0.1;   ///< dropout rate of embeddings, attention weights and sublayer outputs
  Activation activation = Activation::gelu;  ///< activation of the feed-forward layers and of the
                                             ///< masked-word head
  double norm_eps = 1e-12;                   ///< epsilon of the norms, added to the variance
  /// If above 0, backward recomputes the activations of this many blocks at a time, to save memory.
  /// 0 keeps all activations instead. save_model() does not store this option.
  int64_t recompute = 0;
};

/// The input of a BERT.
struct BertInput {
  Tensor ids;            ///< (B, T) int64
  Tensor segments = {};  ///< (B, T) int64: index of each token's segment; if undefined, all are 0
  Tensor mask = {};      ///< (B, T) bool: false for padding; if undefined, there is no padding
};

/// Logits and targets of the two pre-training tasks for a batch.
struct BertAnswers {
  Tensor word_logits, words;  ///< masked words: logits (M, vocab) and ids (M) int64 of the M tokens
                              ///< to predict
  Tensor next_logits, next;   ///< next sentence: logits (B, 2) and classes (B) int64
};

/// Losses of the two pre-training tasks. Usually their sum is minimised.
struct BertLosses {
  Tensor masked, next;  ///< mean cross entropy of the masked words, and of next-sentence prediction
};

/// BERT for pre-training: summed embeddings with a layer norm, post-norm blocks, a pooler of the
/// first token, and one head per pre-training task.
struct Bert : nn::Module {
  using Config = BertConfig;
  static constexpr const char* kind = "bert";
  static Fields fields(BertConfig& config);

  const BertConfig config;
  nn::Embedding words, positions, segments;  ///< a token's three embeddings are summed
  nn::LayerNorm embedding_norm;              ///< applied to the summed embeddings
  nn::Dropout dropout;                       ///< applied after embedding_norm
  std::vector<nn::Block> blocks;             ///< the encoder, post-norm
  nn::Linear pooler;                         ///< dim -> dim
  nn::Linear transform;                      ///< first layer of the masked-word head: dim -> dim
  nn::LayerNorm transform_norm;              ///< applied after transform and its activation
  nn::Linear decoder;                        ///< last layer of the masked-word head: dim -> vocab,
                                             ///< weight tied to `words`
  nn::Linear next;                           ///< next-sentence head: dim -> 2
  explicit Bert(const BertConfig& config);

  /// Returns the contextual embedding of each token: (B, T, dim). Throws Error if T is larger than
  /// config.context.
  Tensor operator()(const BertInput& input) const;
  /// Returns one feature vector per input: hidden (B, T, dim) -> (B, dim). It is tanh(pooler(x)),
  /// where x is the contextual embedding of the input's first token.
  Tensor pooled(const Tensor& hidden) const;
  /// Returns the masked-word head's logits for each token: hidden (..., dim) -> (..., vocab).
  Tensor word_logits(const Tensor& hidden) const;
  /// Returns logits and targets of both pre-training tasks for a batch. Throws Error if the batch
  /// has no token to predict.
  BertAnswers answers(const MaskedBatch& batch) const;
  /// Returns the losses of both pre-training tasks for a batch. Throws Error if the batch has no
  /// token to predict.
  BertLosses losses(const MaskedBatch& batch) const {
    const BertAnswers a = answers(batch);
    return {cross_entropy(a.word_logits, a.words), cross_entropy(a.next_logits, a.next)};
  }
};

struct BertClassifierConfig {
  BertConfig bert = {};  ///< the encoder
  int64_t classes = 2;   ///< number of classes
  bool tokens = false;   ///< true: classify each token; false: classify the text
};
/// A BERT with a linear head that classifies texts or tokens. To start from a pre-trained BERT,
/// call `classifier.bert.load_state_dict(bert.state_dict())`. To train only the head, call
/// `classifier.bert.requires_grad_(false)`.
struct BertClassifier : nn::Module {
  using Config = BertClassifierConfig;
  static constexpr const char* kind = "bert-classifier";
  static Fields fields(BertClassifierConfig& config);

  const BertClassifierConfig config;
  Bert bert;            ///< the encoder
  nn::Dropout dropout;  ///< applied before the head, with the encoder's dropout probability
  nn::Linear head;      ///< dim -> classes
  explicit BertClassifier(const BertClassifierConfig& config);

  /// Returns logits: (B, classes), or (B, T, classes) if config.tokens is true.
  Tensor operator()(const BertInput& input) const;
  /// Returns the mean cross entropy of the logits for `labels`: int64 (B), or (B, T) if
  /// config.tokens is true. Labels of -100 are ignored; if all labels are -100, the mean is NaN.
  Tensor loss(const BertInput& input, const Tensor& labels) const;
};

}  // namespace gradus::models
