#pragma once
// The recurrent encoder-decoder with attention. Bahdanau, Cho, Bengio 2015, "Neural Machine
// Translation by Jointly Learning to Align and Translate", arXiv 1409.0473.

#include "gradus/models/data/text/pair_data.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/attention.h"
#include "gradus/nn/recurrent.h"

namespace gradus::models {

struct RNNTranslatorConfig {
  int64_t source_vocab = 0;  ///< must be given, as is target_vocab
  int64_t target_vocab = 0;  ///< how many target tokens there are
  int64_t context = 128;     ///< the most tokens of a target
  int64_t layers = 1;        ///< of the encoder, and of the decoder
  int64_t dim = 64;          ///< of embeddings
  int64_t hidden = 128;  ///< of the decoder's state; each of the encoder's two directions has half
  double dropout = 0.1;  ///< of embeddings, between layers, and before the output
  Recurrence cell = Recurrence::gru;      ///< of encoder and decoder
  nn::Score score = nn::Score::additive;  ///< how well a state fits an annotation
};

class RNNTranslatorDecoder;

/// A bidirectional encoder makes an annotation of each source token; the decoder looks at them with
/// its state before each step.
struct RNNTranslator : nn::Module {
  using Config = RNNTranslatorConfig;
  static constexpr const char* kind = "rnn";
  static Fields fields(RNNTranslatorConfig& config);

  const RNNTranslatorConfig config;
  nn::Embedding source_embedding, target_embedding;  ///< (source_vocab, dim); (target_vocab, dim)
  nn::Dropout dropout;                   ///< of embeddings, between layers, before the output
  nn::RecurrentLayers encoder;           ///< bidirectional, hidden / 2 each way
  nn::Linear bridge;                     ///< the encoder's last states -> the decoder's first
  nn::Attention attention;               ///< the decoder's state asks the annotations
  std::vector<nn::RecurrentCell> cells;  ///< the first reads [embedding, context]
  nn::Linear readout;                    ///< [state, context, embedding] -> dim
  nn::Linear head;                       ///< the target embedding's weight, with a bias
  explicit RNNTranslator(const RNNTranslatorConfig& config);

  /// Logits of each target token's next one: source (B, S) int64, of which lengths (B) int64 say how
  /// many are real (undefined: all), target (B, T) int64 -> (B, T, target_vocab).
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// The mean cross entropy of the batch's targets.
  Tensor loss(const PairBatch& batch, double label_smoothing = 0) const;
  /// How much each target token has looked at each source token: (B, T, S); without dropout, outside
  /// the graph.
  Tensor alignment(const Tensor& source, const Tensor& lengths, const Tensor& target) const;

  /// Targets to be written for each of `source`'s rows, `beams` side by side: row r is of source
  /// r / beams. The model must outlive it.
  RNNTranslatorDecoder decoder(const Tensor& source, const Tensor& lengths,
                               int64_t beams = 1) const&;
  RNNTranslatorDecoder decoder(const Tensor&, const Tensor&, int64_t = 1) const&& = delete;

 private:
  friend class RNNTranslatorDecoder;
  /// What the decoder goes on from: the sources' annotations and its own state.
  struct State {
    Tensor annotations, keys;  // (B, S, hidden), and as the attention has prepared them
    Tensor mask;               // (B, 1, S) or undefined
    std::vector<RecurrentState> layers;
  };
  struct Step {
    Tensor state, context;  // (B, hidden) each
  };
  State read(const Tensor& source, const Tensor& lengths) const;
  Step step(const Tensor& embedded, State& state) const;
  Tensor logits(const Tensor& states, const Tensor& contexts, const Tensor& embedded) const;
};

/// An RNNTranslator's targets.
class RNNTranslatorDecoder : public Decoder {
 public:
  RNNTranslatorDecoder(const RNNTranslator& model, const Tensor& source, const Tensor& lengths,
                       int64_t beams);
  int64_t vocab() const override { return model_->config.target_vocab; }
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override { return capacity() - read_; }
  /// The most tokens of a target.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  const RNNTranslator* model_;
  std::vector<RecurrentState> first_;  // before the first token
  RNNTranslator::State state_;
  detail::SourceRows rows_;
  int64_t read_ = 0;
};

}  // namespace gradus::models
