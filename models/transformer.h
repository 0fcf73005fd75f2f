#pragma once
// The Transformer: an encoder that reads a source, a decoder that writes a target. Vaswani et al.
// 2017, "Attention Is All You Need", arXiv 1706.03762.

#include "gradus/models/data/text/pair_data.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

struct TransformerConfig {
  int64_t source_vocab = 0;  ///< must be given, as is target_vocab
  int64_t target_vocab = 0;  ///< how many target tokens there are
  int64_t context = 128;     ///< the most tokens of a source, and of a target
  int64_t layers = 3;        ///< of the encoder, and of the decoder
  int64_t heads = 4;         ///< of attention; must divide dim
  int64_t dim = 128;         ///< numbers that stand for a token
  int64_t hidden = 0;        ///< of the feed-forward layers; 0: 4 dim
  double dropout = 0.1;  ///< of embeddings, attention weights, feed-forward and sublayers' outputs
  Activation activation = Activation::relu;  ///< within the feed-forward layers
  bool pre_norm = false;      ///< norms before the sublayers, and not behind as published
  bool tie = true;            ///< the output layer's weight is the target embedding's
  bool shared_vocab = false;  ///< one embedding for source and target, of one vocabulary
};

class TransformerDecoder;

/// Embeddings times sqrt(dim) plus sinusoidal positions, `layers` blocks each of encoder and decoder,
/// each stack closed by a norm (as torch.nn.Transformer's are), and a linear layer to logits.
struct Transformer : nn::Module {
  using Config = TransformerConfig;
  static constexpr const char* kind = "transformer";
  static Fields fields(TransformerConfig& config);

  const TransformerConfig config;
  nn::Embedding source_embedding, target_embedding;  ///< one if the vocabulary is shared
  nn::SinusoidalPositions positions;                 ///< added to both
  nn::Dropout dropout;                               ///< of the embedded tokens
  std::vector<nn::Block> encoder;                    ///< pre-norm if config.pre_norm
  nn::LayerNorm encoder_norm;                        ///< of what they give
  std::vector<nn::DecoderBlock> decoder_blocks;      ///< pre-norm if config.pre_norm
  nn::LayerNorm decoder_norm;                        ///< of what they give
  nn::Linear head;                                   ///< dim -> target_vocab
  explicit Transformer(const TransformerConfig& config);

  /// Logits of each target token's next one: source (B, S) int64, of which lengths (B) int64 say how
  /// many are real (undefined: all), target (B, T) int64 -> (B, T, target_vocab).
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// The mean cross entropy of the batch's targets.
  Tensor loss(const PairBatch& batch, double label_smoothing = 0) const;
  /// The cross-attention of the last decoder layer, mean over heads: how much each target token has
  /// looked at each source token, (B, T, S); without dropout, outside the graph.
  Tensor alignment(const Tensor& source, const Tensor& lengths, const Tensor& target) const;

  /// Targets to be written for each of `source`'s rows, `beams` side by side: row r is of source
  /// r / beams. The model must outlive it.
  TransformerDecoder decoder(const Tensor& source, const Tensor& lengths, int64_t beams = 1) const&;
  TransformerDecoder decoder(const Tensor&, const Tensor&, int64_t = 1) const&& = delete;

  /// The stacks alone: x (B, S, dim) -> (B, S, dim), and y (B, T, dim) -> (B, T, dim). The mask
  /// (B, 1, 1, S) is true where a source token may be seen, or undefined.
  Tensor encode(Tensor x, const Tensor& mask) const;
  /// The decoder's; `memory` (B, S, dim) is what encode() gives.
  Tensor decode(Tensor y, const Tensor& memory, const Tensor& mask) const;

 private:
  friend class TransformerDecoder;
  Tensor embed(const nn::Embedding& embedding, const Tensor& ids, int64_t offset) const;
  Tensor memory_of(const Tensor& source, const Tensor& mask) const;
};

/// A Transformer's targets, with the keys and values of the sources and of the tokens read.
class TransformerDecoder : public Decoder {
 public:
  TransformerDecoder(const Transformer& model, const Tensor& source, const Tensor& lengths,
                     int64_t beams);
  int64_t vocab() const override { return model_->config.target_vocab; }
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override {
    return layers_.empty() ? 0 : capacity() - layers_.front().length();  // none: moved from
  }
  /// The most tokens of a target.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  void select_sources(const Tensor& rows);
  const Transformer* model_;
  Tensor mask_;  // of the sources, by rows
  detail::SourceRows rows_;
  std::vector<nn::KeysAndValues> memories_;  // by layers
  std::vector<nn::KeyValueCache> layers_;
};

}  // namespace gradus::models
