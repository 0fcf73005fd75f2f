#pragma once
// GPT: a decoder-only transformer language model. Radford et al. 2019, "Language Models are
// Unsupervised Multitask Learners"; by its options also today's form: rotary positions, RMSNorm,
// SwiGLU, fewer key/value heads (Touvron et al. 2023, arXiv 2302.13971).

#include <optional>

#include "gradus/core/ops/activation.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

/// How a model knows where in the sequence a token stands: rows added to the embedded tokens, or
/// queries and keys turned.
enum class Positions { learned, sinusoidal, rotary };

struct GPTConfig {
  int64_t vocab = 0;     ///< how many tokens there are; must be given
  int64_t context = 64;  ///< the most tokens the model can see
  int64_t layers = 4;    ///< blocks
  int64_t heads = 4;     ///< of queries; must divide dim
  int64_t dim = 128;     ///< numbers that stand for a token
  double dropout = 0;    ///< of the embedding, the attention weights and what each layer adds
  bool bias = false;     ///< in linear layers and norms
  bool tie = true;       ///< whether the output layer's weight is the token embedding's
  Activation activation = Activation::gelu;  ///< of the feed-forward layers
  bool gated = false;                        ///< feed-forward layers act(a) b; with silu: SwiGLU
  int64_t hidden = 0;    ///< of the feed-forward layers; 0: 4 dim, or as many parameters gated
  int64_t kv_heads = 0;  ///< heads of keys and values, a divisor of heads; 0: as many
  Positions positions = Positions::learned;  ///< how a token's place is known
  nn::NormKind norm = nn::NormKind::layer;   ///< of the blocks and of the last norm
  double norm_eps = 1e-5;                    ///< what the norms add to the variance
};

class GPTDecoder;

/// Token embeddings and positions, pre-norm blocks, a last norm, and a linear layer to logits.
/// Initialised as GPT-2: normal with standard deviation 0.02, the layers that add to the residual
/// stream with 0.02 / sqrt(2 layers), biases 0.
struct GPT : nn::Module {
  using Config = GPTConfig;
  static constexpr const char* kind = "gpt";
  static Fields fields(GPTConfig& config);

  const GPTConfig config;
  nn::Embedding wte;                             ///< (vocab, dim)
  std::optional<nn::LearnedPositions> wpe;       ///< by Positions::learned
  std::optional<nn::SinusoidalPositions> waves;  ///< by Positions::sinusoidal
  nn::Dropout dropout;                           ///< of the embedded tokens
  std::vector<nn::Block> blocks;                 ///< pre-norm, causal
  nn::Norm ln_f;                                 ///< of what the blocks give
  nn::Linear head;                               ///< without bias
  explicit GPT(const GPTConfig& config);

  /// Logits of each position's next token: ids (B, T) int64 -> (B, T, vocab), T <= context.
  Tensor operator()(const Tensor& ids) const;
  /// The mean cross entropy of the next tokens `targets` (B, T).
  Tensor loss(const Tensor& ids, const Tensor& targets) const;

  /// `rows` empty sequences to be continued, of up to `context` tokens each. The model must outlive
  /// it.
  GPTDecoder decoder(int64_t rows = 1) const&;
  GPTDecoder decoder(int64_t rows = 1) const&& = delete;

 private:
  friend class GPTDecoder;
  Tensor embed(const Tensor& ids, int64_t offset) const;
};

/// A GPT's sequences, with the keys and values of the tokens read.
class GPTDecoder : public Decoder {
 public:
  GPTDecoder(const GPT& model, int64_t rows);
  int64_t vocab() const override { return model_->config.vocab; }
  /// What the model gives for the whole sequences' last position. Throws Error unless there is room
  /// for all of ids.
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override {
    return layers_.empty() ? 0 : capacity() - layers_.front().length();  // none: moved from
  }
  /// The most tokens of a sequence.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;

 private:
  const GPT* model_;
  std::vector<nn::KeyValueCache> layers_;
};

}  // namespace gradus::models
