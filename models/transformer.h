#pragma once
// The Transformer: an encoder for the source and a decoder for the target. Vaswani et al. 2017,
// "Attention Is All You Need", arXiv 1706.03762.

#include "gradus/models/data/text/pair_data.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

struct TransformerConfig {
  int64_t source_vocab = 0;  ///< vocabulary size; required
  int64_t target_vocab = 0;  ///< vocabulary size; required
  int64_t context = 128;     ///< maximum number of tokens in a source, or in a target with [START]
  int64_t layers = 3;        ///< number of encoder blocks, and of decoder blocks
  int64_t heads = 4;         ///< attention heads; must divide dim
  int64_t dim = 128;         ///< embedding size
  int64_t hidden = 0;        ///< hidden size of the feed-forward layers; 0 means 4 * dim
  /// Dropout probability for embeddings, attention weights, hidden layers and sublayer outputs.
  double dropout = 0.1;
  Activation activation = Activation::relu;  ///< activation of the feed-forward layers
  bool pre_norm = false;                     ///< use pre-norm blocks; false: post-norm, as in the
                                             ///< paper
  bool tie = true;  ///< share the target embedding's weight with the output layer
  /// Use one vocabulary and one embedding for source and target. Requires
  /// source_vocab == target_vocab.
  bool shared_vocab = false;
  /// If above 0, backward recomputes the activations of this many blocks at a time, to save memory.
  /// 0 keeps all activations instead. save_model() does not store this option.
  int64_t recompute = 0;
};

class TransformerDecoder;

/// An encoder-decoder transformer. Embeddings are multiplied by sqrt(dim), and sinusoidal positions
/// are added. The encoder and the decoder each consist of `layers` blocks and a final norm, as in
/// torch.nn.Transformer. A linear layer maps the decoder's output to logits.
struct Transformer : nn::Module {
  using Config = TransformerConfig;
  static constexpr const char* kind = "transformer";
  static Fields fields(TransformerConfig& config);

  const TransformerConfig config;
  nn::Embedding source_embedding, target_embedding;  ///< one shared weight if config.shared_vocab
  nn::SinusoidalPositions positions;                 ///< added to source and target embeddings
  nn::Dropout dropout;                               ///< applied to the embedded tokens
  std::vector<nn::Block> encoder;                    ///< pre-norm if config.pre_norm
  nn::LayerNorm encoder_norm;                        ///< applied to the last encoder block's output
  std::vector<nn::DecoderBlock> decoder_blocks;      ///< pre-norm if config.pre_norm
  nn::LayerNorm decoder_norm;                        ///< applied to the last decoder block's output
  nn::Linear head;                                   ///< dim -> target_vocab; no bias if config.tie
  explicit Transformer(const TransformerConfig& config);

  /// Returns next-token logits at each target position: (B, T, target_vocab). `source` is (B, S)
  /// int64, `lengths` (B) int64 and `target` (B, T) int64. Undefined lengths mean no padding.
  /// Throws Error if S or T is larger than config.context.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// Returns the mean cross entropy of the batch's targets, with label smoothing.
  Tensor loss(const PairBatch& batch, double label_smoothing = 0) const;
  /// Returns the cross-attention weights of the last decoder block, averaged over heads: (B, T, S).
  /// Applies no dropout and records no gradients.
  Tensor alignment(const Tensor& source, const Tensor& lengths, const Tensor& target) const;

  /// Returns a decoder with `beams` rows per source: row r decodes source r / beams. The model must
  /// outlive the decoder. Throws Error if gradients are being recorded.
  TransformerDecoder decoder(const Tensor& source, const Tensor& lengths, int64_t beams = 1) const&;
  TransformerDecoder decoder(const Tensor&, const Tensor&, int64_t = 1) const&& = delete;

  /// Applies the encoder's blocks and final norm to the embedded source: x (B, S, dim) ->
  /// (B, S, dim). The mask (B, 1, 1, S) is true for real source tokens; undefined means no padding.
  Tensor encode(const Tensor& x, const Tensor& mask) const;
  /// Applies the decoder's blocks and final norm to the embedded target: y (B, T, dim) ->
  /// (B, T, dim). `memory` (B, S, dim) is the output of encode(), and `mask` is the mask passed to
  /// encode().
  Tensor decode(const Tensor& y, const Tensor& memory, const Tensor& mask) const;

 private:
  friend class TransformerDecoder;
  Tensor embed(const nn::Embedding& embedding, const Tensor& ids, int64_t offset) const;
  Tensor encode_source(const Tensor& source, const Tensor& mask) const;
};

/// The decoder of a Transformer. For each block it stores the keys and values of the sources, for
/// cross-attention, and a key/value cache of the target, for self-attention.
class TransformerDecoder : public Decoder {
 public:
  TransformerDecoder(const Transformer& model, const Tensor& source, const Tensor& lengths,
                     int64_t beams);
  int64_t vocab() const override { return model_->config.target_vocab; }
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override {
    return layers_.empty() ? 0 : capacity() - layers_.front().length();  // empty after a move
  }
  /// Returns the maximum length of a target, config.context.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  void select_sources(const Tensor& rows);
  const Transformer* model_;
  Tensor mask_;  // source mask per row: (rows, 1, 1, S) or undefined
  internal::SourceRows rows_;
  std::vector<nn::KeysAndValues> memories_;  // keys and values of the sources, per block
  std::vector<nn::KeyValueCache> layers_;
};

}  // namespace gradus::models
