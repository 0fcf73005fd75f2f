#pragma once
// Show, Attend and Tell: a caption word by word, each with a look at a part of the image. Xu et al.
// 2015, arXiv 1502.03044, with soft attention.

#include "gradus/models/data/text/text_batch.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/attention.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/recurrent.h"

namespace gradus::models {

struct CaptionerConfig {
  int64_t vocab = 0;     ///< tokens that there are; must be given
  int64_t context = 16;  ///< the most tokens of a caption that are read: [START] is one, [END] not
  int64_t image = 32;    ///< height and width
  int64_t channels = 3;  ///< 1: grey; 3: red, green, blue
  int64_t filters = 32;  ///< of the first convolution; each next has twice as many
  int64_t convolutions = 3;            ///< 3 x 3, each halves the grid, rounded up
  int64_t dim = 64;                    ///< of word embeddings
  int64_t hidden = 128;                ///< of the decoder's state
  double dropout = 0;                  ///< of embeddings and before the output
  Recurrence cell = Recurrence::lstm;  ///< LSTM as published, or another
  double coverage = 0;  ///< lambda of equation 14: how much each place should be looked at once

  int64_t grid() const;      ///< places along height and along width
  int64_t features() const;  ///< numbers that stand for a place
};

class CaptionerDecoder;

/// A convolutional network makes an annotation a of each place of a grid; a recurrent decoder looks
/// at them before each word:
///   h_0 = tanh(W mean(a)),  z_t = sigmoid(W_b h_{t-1}) sum_i alpha_ti a_i,
///   h_t = cell([y_{t-1}, z_t], h_{t-1}),  p(y_t) ~ exp(L_o(y_{t-1} + L_h h_t + L_z z_t))
/// with alpha_t the softmax of additive scores of h_{t-1} and a_i, and y a word's embedding.
struct Captioner : nn::Module {
  using Config = CaptionerConfig;
  static constexpr const char* kind = "captioner";
  static Fields fields(CaptionerConfig& config);

  const CaptionerConfig config;
  std::vector<nn::Conv2d>
      convolutions;         ///< of stride 2, and one more of stride 1; relu behind each
  nn::Linear first;         ///< mean(a) -> h_0, and of an LSTM c_0
  nn::Embedding words;      ///< of the caption's tokens: (vocab, dim)
  nn::Dropout dropout;      ///< of embeddings and before the output
  nn::Attention attention;  ///< additive: the state asks the annotations
  nn::Linear gate;          ///< W_b: hidden -> features
  nn::RecurrentCell cell;   ///< reads [y, z]: dim + features -> hidden
  nn::Linear readout;       ///< L_h and L_z: [h, z] -> dim
  nn::Linear head;          ///< L_o: dim -> vocab
  explicit Captioner(const CaptionerConfig& config);

  /// Annotations: images (B, channels, image, image) -> (B, grid grid, features), places from left
  /// to right and top to bottom.
  Tensor annotations(const Tensor& images) const;
  /// Logits of the word after each: images, and words (B, T) int64 -> (B, T, vocab).
  Tensor operator()(const Tensor& images, const Tensor& words) const;
  /// The mean cross entropy of all words of the captions ([START] caption [END], as text_batch makes
  /// them) but the first, and coverage times the mean over captions and places of
  /// (1 - sum_t alpha_ti)^2.
  Tensor loss(const Tensor& images, const TextBatch& captions) const;
  /// How much each place was looked at before the word after each of `words` (B, T) was chosen:
  /// (B, T, grid, grid), each word's sum 1. Without dropout and outside the graph.
  Tensor attention_maps(const Tensor& images, const Tensor& words) const;

  /// For decoding, `beams` rows an image, side by side. The model must outlive it.
  CaptionerDecoder decoder(const Tensor& images, int64_t beams) const&;
  CaptionerDecoder decoder(const Tensor& images, int64_t beams) && = delete;
  /// The best caption of each image.
  std::vector<Hypothesis> captions(const Tensor& images, const BeamSearchOptions& options) const;

 private:
  friend class CaptionerDecoder;
  struct State {
    Tensor annotations, keys;  // (B, places, features), and as the attention has prepared them
    RecurrentState cell;
  };
  struct Step {
    Tensor state, context, weights;  // (B, hidden), (B, features), (B, places)
  };
  struct Reading {
    Tensor logits, weights;  // (B, T, vocab), (B, T, places)
  };
  State look(const Tensor& images) const;
  Step step(const Tensor& embedded, State& state) const;
  Tensor logits(const Tensor& states, const Tensor& contexts, const Tensor& embedded) const;
  Reading read(const Tensor& images, const Tensor& words) const;
};

/// A Captioner's captions.
class CaptionerDecoder : public Decoder {
 public:
  CaptionerDecoder(const Captioner& model, const Tensor& images, int64_t beams);
  int64_t vocab() const override { return model_->config.vocab; }
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override { return capacity() - read_; }
  /// The most tokens of a caption.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  const Captioner* model_;
  RecurrentState first_;  // before the first word
  Captioner::State state_;
  detail::SourceRows rows_;
  int64_t read_ = 0;
};

}  // namespace gradus::models
