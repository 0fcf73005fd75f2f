#pragma once
// Show, Attend and Tell: image captioning with soft attention over the feature map. Xu et al. 2015,
// arXiv 1502.03044.

#include "gradus/models/data/text/text_batch.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/recurrent.h"

namespace gradus::models {

struct CaptionerConfig {
  int64_t vocab = 0;     ///< vocabulary size; required
  int64_t context = 16;  ///< maximum length of a caption in tokens, counting [START] but not [END]
  int64_t image = 32;    ///< height and width of an image
  int64_t channels = 3;  ///< channels of an image, for example 3 for RGB
  /// Filters of the first convolution. Each later convolution except the last doubles the number.
  int64_t filters = 32;
  /// Number of convolutions of stride 2. Each halves the feature map, rounding up. One convolution
  /// of stride 1 follows.
  int64_t convolutions = 3;
  int64_t dim = 64;                    ///< size of word embeddings
  int64_t hidden = 128;                ///< size of the decoder's state
  double dropout = 0;                  ///< dropout rate of embeddings and before the output layer
  Recurrence cell = Recurrence::lstm;  ///< cell of the decoder; LSTM in the paper
  double coverage = 0;                 ///< weight of the penalty for uneven attention (lambda in
                                       ///< the paper, equation 14)

  int64_t grid() const;      ///< height and width of the feature map
  int64_t features() const;  ///< channels of the feature map
};

class CaptionerDecoder;

/// An image captioner. A convolutional encoder computes a feature vector a_i, called an annotation,
/// for each position i of its feature map. A recurrent decoder attends to the annotations before
/// each word:
///   h_0 = tanh(W mean(a)),  z_t = sigmoid(W_b h_{t-1}) sum_i alpha_ti a_i,
///   h_t = cell([y_{t-1}, z_t], h_{t-1}),  logits of word t = L_o(y_{t-1} + L_h h_t + L_z z_t)
/// alpha_t is the softmax over i of additive attention scores of h_{t-1} and a_i. y_t is the
/// embedding of word t. W, W_b, L_o, L_h and L_z are learned linear layers.
struct Captioner : nn::Module {
  using Config = CaptionerConfig;
  static constexpr const char* kind = "captioner";
  static Fields fields(CaptionerConfig& config);

  const CaptionerConfig config;
  std::vector<nn::Conv2d> convolutions;  ///< 3 x 3, each followed by relu; the last has stride 1,
                                         ///< all others stride 2
  nn::Linear first;                      ///< layer W: maps the mean of the feature vectors to the
                                         ///< decoder's initial state
  nn::Embedding words;                   ///< (vocab, dim)
  nn::Dropout dropout;                   ///< applied to embeddings and before `head`
  nn::Attention attention;               ///< additive; the decoder's state attends to the
                                         ///< encoder's feature vectors
  nn::Linear gate;                       ///< gate W_b of the attended features: hidden -> features
  nn::RecurrentCell cell;                ///< input: previous word's embedding, attended features
  nn::Linear readout;                    ///< layers L_h and L_z as one layer: maps the decoder's
                                         ///< state and the attended features to size dim
  nn::Linear head;                       ///< output layer L_o: dim -> vocab
  explicit Captioner(const CaptionerConfig& config);

  /// Returns the encoder's feature vector for each position of the feature map, in row-major order:
  /// images (B, channels, image, image) -> (B, grid * grid, features).
  Tensor annotations(const Tensor& images) const;
  /// Returns the logits of the word after each of `words`: words (B, T) int64 -> (B, T, vocab).
  /// Throws Error if T is larger than config.context.
  Tensor operator()(const Tensor& images, const Tensor& words) const;
  /// Returns the mean cross entropy of the captions' tokens after [START], plus config.coverage
  /// times the mean over captions and positions i of (1 - sum_t alpha_ti)^2. alpha_ti is the
  /// attention weight of position i for word t. `captions` have the form [START] text [END], as
  /// returned by text_batch(). Throws Error if a caption has fewer than 2 or more than
  /// config.context + 1 tokens.
  Tensor loss(const Tensor& images, const TextBatch& captions) const;
  /// Returns attention maps (B, T, grid, grid) for `words` (B, T). Map [b, t] is the attention with
  /// which the model predicts the word after words[b, t]. Each map sums to 1. Applies no dropout
  /// and records no gradients.
  Tensor attention_maps(const Tensor& images, const Tensor& words) const;

  /// Returns a decoder with `beams` rows per image: row r captions image r / beams. The model must
  /// outlive the decoder. Throws Error if gradients are being recorded.
  CaptionerDecoder decoder(const Tensor& images, int64_t beams) const&;
  CaptionerDecoder decoder(const Tensor& images, int64_t beams) const&& = delete;
  /// Returns the best caption of each image, found by beam search.
  std::vector<Hypothesis> captions(const Tensor& images, const BeamSearchOptions& options) const;

 private:
  friend class CaptionerDecoder;
  struct State {
    Tensor annotations;  // (B, positions, features)
    Tensor keys;         // (B, positions, hidden): attention.prepare(annotations)
    RecurrentState cell;
  };
  struct Step {
    Tensor state, context, weights;  // (B, hidden), (B, features), (B, positions)
  };
  struct Steps {
    Tensor logits, weights;  // (B, T, vocab), (B, T, positions)
  };
  State encode(const Tensor& images) const;
  Step step(const Tensor& embedded, State& state) const;
  Tensor logits(const Tensor& states, const Tensor& contexts, const Tensor& embedded) const;
  Steps unroll(const Tensor& images, const Tensor& words) const;
};

/// The decoder of a Captioner.
class CaptionerDecoder : public Decoder {
 public:
  CaptionerDecoder(const Captioner& model, const Tensor& images, int64_t beams);
  int64_t vocab() const override { return model_->config.vocab; }
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override { return capacity() - read_; }
  /// Returns the maximum length of a caption, config.context.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  const Captioner* model_;
  RecurrentState first_;  // the state before the first word
  Captioner::State state_;
  internal::SourceRows rows_;
  int64_t read_ = 0;
};

}  // namespace gradus::models
