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
  int64_t context = 128;     ///< maximum length of a target in tokens, counting [START]; sources
                             ///< may be longer
  int64_t layers = 1;        ///< number of layers in the encoder and in the decoder
  int64_t dim = 64;          ///< embedding size
  int64_t hidden = 128;      ///< size of the decoder's state, even; each encoder direction has a
                             ///< state of half this size
  double dropout = 0.1;      ///< dropout rate of embeddings, between layers, and before the output
                             ///< layer
  Recurrence cell = Recurrence::gru;      ///< cell of encoder and decoder
  nn::Score score = nn::Score::additive;  ///< attention score of decoder state and encoder output
};

class RNNTranslatorDecoder;

/// A recurrent translator. A bidirectional encoder computes an annotation (its output) for each
/// source token. Before each step, the decoder attends to the annotations, with the state of its
/// last layer as the query. The output of this attention is the step's context vector.
struct RNNTranslator : nn::Module {
  using Config = RNNTranslatorConfig;
  static constexpr const char* kind = "rnn";
  static Fields fields(RNNTranslatorConfig& config);

  const RNNTranslatorConfig config;
  nn::Embedding source_embedding, target_embedding;  ///< (source_vocab, dim); (target_vocab, dim)
  nn::Dropout dropout;          ///< applied to embeddings, between layers, and before the head
  nn::RecurrentLayers encoder;  ///< bidirectional, with states of size hidden / 2 per direction
  /// Linear layer, hidden -> layers * hidden, followed by tanh. The input is the final h of the
  /// last encoder layer, both directions concatenated. The output is the initial h of all decoder
  /// layers. The initial c of an LSTM is 0.
  nn::Linear bridge;
  nn::Attention attention;  ///< attention of the decoder to the encoder's outputs
  /// The decoder's cells, one per layer. The first reads [embedding, context vector].
  std::vector<nn::RecurrentCell> cells;
  nn::Linear readout;  ///< [state, context vector, embedding] -> dim
  nn::Linear head;     ///< dim -> target_vocab
  explicit RNNTranslator(const RNNTranslatorConfig& config);

  /// Returns next-token logits at each target position: (B, T, target_vocab). `source` is (B, S)
  /// int64, `lengths` (B) int64 and `target` (B, T) int64. Undefined lengths mean no padding.
  /// Throws Error if T is larger than config.context.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// Returns the mean cross entropy of the batch's targets, with label smoothing.
  Tensor loss(const PairBatch& batch, double label_smoothing = 0) const;
  /// Returns the attention weights over the source at each target position: (B, T, S). Applies no
  /// dropout and records no gradients.
  Tensor alignment(const Tensor& source, const Tensor& lengths, const Tensor& target) const;

  /// Returns a decoder with `beams` rows per source: row r decodes source r / beams. The model must
  /// outlive the decoder. Throws Error if gradients are being recorded.
  RNNTranslatorDecoder decoder(const Tensor& source, const Tensor& lengths,
                               int64_t beams = 1) const&;
  RNNTranslatorDecoder decoder(const Tensor&, const Tensor&, int64_t = 1) const&& = delete;

 private:
  friend class RNNTranslatorDecoder;
  /// The encoder's outputs for the sources (annotations), and the decoder's current state.
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

/// The decoder of an RNNTranslator.
class RNNTranslatorDecoder : public Decoder {
 public:
  RNNTranslatorDecoder(const RNNTranslator& model, const Tensor& source, const Tensor& lengths,
                       int64_t beams);
  int64_t vocab() const override { return model_->config.target_vocab; }
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override { return capacity() - read_; }
  /// Returns the maximum length of a target, config.context.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  const RNNTranslator* model_;
  std::vector<RecurrentState> first_;  // the states before the first token
  RNNTranslator::State state_;
  internal::SourceRows rows_;
  int64_t read_ = 0;
};

}  // namespace gradus::models
