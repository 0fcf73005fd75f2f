#pragma once
// BERT: an encoder that is trained to fill in masked words and to tell whether one text follows
// another, and then fine-tuned. Devlin et al. 2019, arXiv 1810.04805.

#include "gradus/core/ops/loss.h"
#include "gradus/models/data/text/masked_pairs.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

struct BertConfig {
  int64_t vocab = 0;      ///< how many tokens there are; must be given
  int64_t context = 128;  ///< the most tokens the model can see
  int64_t segments = 2;   ///< kinds of text: the first and the second
  int64_t layers = 4;     ///< blocks
  int64_t heads = 4;      ///< of a block's attention; must divide dim
  int64_t dim = 128;      ///< numbers that stand for a token
  int64_t hidden = 0;     ///< of the feed-forward layers; 0: 4 dim
  double dropout = 0.1;   ///< of embeddings, attention weights and sublayers' outputs
  Activation activation = Activation::gelu;  ///< within the feed-forward layers
  double norm_eps = 1e-12;                   ///< what the norms add to the variance
};

/// What a BERT reads.
struct BertInput {
  Tensor ids;            ///< (B, T) int64
  Tensor segments = {};  ///< (B, T) int64: which text a token belongs to; undefined: the first
  Tensor mask = {};      ///< (B, T) bool: true for real tokens, not padding; undefined: all
};

/// What a BERT says of a batch, and what it should have said.
struct BertAnswers {
  Tensor word_logits, words;  ///< of the M masked tokens: (M, vocab), and (M) int64
  Tensor next_logits, next;   ///< whether the second text follows: (B, 2), and (B) int64
};

/// What training makes small: their sum, as a rule.
struct BertLosses {
  Tensor masked, next;  ///< mean cross entropy of the masked tokens, and of is_next
};

/// The embeddings' sum through a norm, post-norm blocks; a pooled first token; heads for both tasks.
struct Bert : nn::Module {
  using Config = BertConfig;
  static constexpr const char* kind = "bert";
  static Fields fields(BertConfig& config);

  const BertConfig config;
  nn::Embedding words, positions, segments;  ///< rows that are added up
  nn::LayerNorm embedding_norm;              ///< of their sum
  nn::Dropout dropout;                       ///< of the embeddings
  std::vector<nn::Block> blocks;             ///< the encoder, post-norm
  nn::Linear pooler;                         ///< dim -> dim
  nn::Linear transform;                      ///< of the masked words' head: dim -> dim
  nn::LayerNorm transform_norm;              ///< behind transform and its activation
  nn::Linear decoder;  ///< dim -> vocab, the words' weight with a bias of its own
  nn::Linear next;     ///< dim -> 2
  explicit Bert(const BertConfig& config);

  /// Each token in its context: (B, T, dim).
  Tensor operator()(const BertInput& input) const;
  /// tanh of a linear layer over the first token: hidden (B, T, dim) -> (B, dim).
  Tensor pooled(const Tensor& hidden) const;
  /// Logits of the words that stood at places of the last axis: (..., dim) -> (..., vocab).
  Tensor word_logits(const Tensor& hidden) const;
  /// Throws Error if no token of the batch is masked.
  BertAnswers answers(const MaskedBatch& batch) const;
  /// The two losses of a batch. Throws Error if no token of the batch is masked.
  BertLosses losses(const MaskedBatch& batch) const {
    const BertAnswers a = answers(batch);
    return {cross_entropy(a.word_logits, a.words), cross_entropy(a.next_logits, a.next)};
  }
};

struct BertClassifierConfig {
  BertConfig bert = {};  ///< of the encoder
  int64_t classes = 2;   ///< that there are
  bool tokens = false;   ///< one class a token, not one a text
};
/// A BERT with a layer on top that names the class of a text or of each token. It begins with
/// another BERT's weights: `classifier.bert.load_state_dict(bert.state_dict())`; what is not to be
/// trained is frozen: `classifier.bert.requires_grad_(false)`.
struct BertClassifier : nn::Module {
  using Config = BertClassifierConfig;
  static constexpr const char* kind = "bert-classifier";
  static Fields fields(BertClassifierConfig& config);

  const BertClassifierConfig config;
  Bert bert;            ///< to be loaded with another's weights
  nn::Dropout dropout;  ///< before the head
  nn::Linear head;      ///< dim -> classes
  explicit BertClassifier(const BertClassifierConfig& config);

  /// Logits: (B, classes), or of tokens (B, T, classes).
  Tensor operator()(const BertInput& input) const;
  /// The mean cross entropy of `labels`, (B) or (B, T) int64; -100 counts for nothing.
  Tensor loss(const BertInput& input, const Tensor& labels) const;
};

}  // namespace gradus::models
