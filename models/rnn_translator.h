#pragma once
// The recurrent encoder-decoder with attention. Bahdanau, Cho, Bengio 2015, "Neural Machine
// Translation by Jointly Learning to Align and Translate", arXiv 1409.0473.

#include "gradus/models/data/text/pair_data.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/recurrent.h"

namespace gradus::models {

struct RNNTranslatorConfig {
  int64_t source_vocab = 0;  ///< vocabulary size; required
  int64_t target_vocab = 0;  ///< vocabulary size; required
  int64_t context = 128;     ///< maximum length of a target
  int64_t layers = 1;        ///< number of layers of the encoder; the decoder has as many
  int64_t dim = 64;          ///< embedding size
  int64_t hidden = 128;      ///< decoder's state size; half of it per direction of the encoder
  double dropout = 0.1;      ///< probability for embeddings, between layers, before the output
  Recurrence cell = Recurrence::gru;      ///< of encoder and decoder
  nn::Score score = nn::Score::additive;  ///< attention score of a decoder state and an annotation
};

class RNNTranslatorDecoder;

/// A bidirectional encoder computes an annotation (its output) for each source token; before each
/// step, the decoder's state attends to the annotations.
struct RNNTranslator : nn::Module {
  using Config = RNNTranslatorConfig;
  static constexpr const char* kind = "rnn";
  static Fields fields(RNNTranslatorConfig& config);

  const RNNTranslatorConfig config;
  nn::Embedding source_embedding, target_embedding;  ///< (source_vocab, dim); (target_vocab, dim)
  nn::Dropout dropout;          ///< of embeddings, between layers, before the output
  nn::RecurrentLayers encoder;  ///< bidirectional, hidden / 2 per direction
  nn::Linear bridge;            ///< the encoder's final states -> the decoder's initial ones
  nn::Attention attention;      ///< the decoder's state attends to the annotations
  std::vector<nn::RecurrentCell> cells;  ///< of the decoder; the first reads [embedding, context]
  nn::Linear readout;                    ///< [state, context, embedding] -> dim
  nn::Linear head;                       ///< dim -> target_vocab
  explicit RNNTranslator(const RNNTranslatorConfig& config);

  /// Next-token logits at each target position: source (B, S) int64 with lengths (B) int64
  /// (undefined: no padding), target (B, T) int64 -> (B, T, target_vocab).
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// Mean cross entropy of the batch's targets.
  Tensor loss(const PairBatch& batch, double label_smoothing = 0) const;
  /// Attention weights of each target token over the source: (B, T, S). Applies no dropout and
  /// records no gradients.
  Tensor alignment(const Tensor& source, const Tensor& lengths, const Tensor& target) const;

  /// A decoder with `beams` rows per source: row r decodes source r / beams. The model must outlive
  /// it.
  RNNTranslatorDecoder decoder(const Tensor& source, const Tensor& lengths,
                               int64_t beams = 1) const&;
  RNNTranslatorDecoder decoder(const Tensor&, const Tensor&, int64_t = 1) const&& = delete;

 private:
  friend class RNNTranslatorDecoder;
  /// The sources' annotations and the decoder's state.
  struct State {
    Tensor annotations, keys;  // (B, S, hidden); keys = attention.prepare(annotations)
    Tensor mask;               // (B, 1, S) or undefined
    std::vector<RecurrentState> layers;
  };
  struct Step {
    Tensor state, context;  // (B, hidden) each
  };
  State encode(const Tensor& source, const Tensor& lengths) const;
  Step step(const Tensor& embedded, State& state) const;
  Tensor logits(const Tensor& states, const Tensor& contexts, const Tensor& embedded) const;
};

/// Decoder of an RNNTranslator.
class RNNTranslatorDecoder : public Decoder {
 public:
  RNNTranslatorDecoder(const RNNTranslator& model, const Tensor& source, const Tensor& lengths,
                       int64_t beams);
  int64_t vocab() const override { return model_->config.target_vocab; }
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override { return capacity() - read_; }
  /// The maximum length of a target, config.context.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  const RNNTranslator* model_;
  std::vector<RecurrentState> first_;  // states before the first token
  RNNTranslator::State state_;
  internal::SourceRows rows_;
  int64_t read_ = 0;
};

}  // namespace gradus::models
