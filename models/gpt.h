#pragma once
// GPT: a decoder-only transformer language model. Radford et al. 2019, "Language Models are
// Unsupervised Multitask Learners". Options turn it into Llama (rotary positions, RMSNorm, SwiGLU,
// fewer key/value heads: Touvron et al. 2023, arXiv 2302.13971), Mistral (an attention window:
// Jiang et al. 2023, arXiv 2310.06825) or Qwen 2 (qkv_bias without bias: arXiv 2407.10671).
// logit_cap is from Gemma 2 (Gemma Team 2024, arXiv 2408.00118, section 2).

#include <optional>

#include "gradus/core/ops/activation.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

/// Position encoding. Learned: embeddings added to the token embeddings. Sinusoidal: sinusoids
/// added to sqrt(dim) times the token embeddings. Rotary: rotation of queries and keys.
enum class Positions { learned, sinusoidal, rotary };

struct GPTConfig {
  int64_t vocab = 0;     ///< vocabulary size; required
  int64_t context = 64;  ///< maximum length of a sequence, in tokens
  int64_t layers = 4;    ///< number of transformer blocks
  int64_t heads = 4;     ///< query heads; must divide dim unless head_dim is given
  int64_t dim = 128;     ///< embedding size
  double dropout = 0;    ///< dropout rate of embeddings, attention weights and sublayer outputs
  bool bias = false;     ///< add biases to the LayerNorms and to all linear layers except the head
  bool tie = true;       ///< share the token embedding's weight with the output layer
  Activation activation = Activation::gelu;  ///< activation of the feed-forward layers
  bool gated = false;    ///< use gated feed-forward layers (nn::MLP); SwiGLU if activation is silu
  int64_t hidden = 0;    ///< feed-forward hidden size; 0 means 4 * dim, or about 8/3 * dim if gated
  int64_t kv_heads = 0;  ///< key/value heads; must divide `heads`; 0 means as many as `heads`
  int64_t head_dim = 0;  ///< size of a head, an even number if rotary; 0 means dim / heads
  bool qkv_bias = false;  ///< add biases to queries, keys and values even if `bias` is false
  Positions positions = Positions::learned;  ///< position encoding
  nn::RotaryOptions rotary = {};             ///< frequencies of rotary positions
  nn::NormKind norm = nn::NormKind::layer;   ///< kind of the norms ln1, ln2 and ln_f: LayerNorm or
                                             ///< RMSNorm
  double norm_eps = 1e-5;                    ///< epsilon of the norms, added to variance or mean
                                             ///< square
  int64_t window = 0;                        ///< attention window in tokens; 0 means no limit
  // The options from qk_norm to token_shift let training reach a given loss in fewer steps.
  bool qk_norm = false;  ///< apply RMSNorm to each head's queries and keys
  /// Initialise with zeros the layers that write to the residual stream, and the head if it is not
  /// tied.
  bool zero_init = false;
  /// In all blocks but the first, replace the attention values v by a v + b v_1. v_1 are the values
  /// of the first block; a and b are learned scalars. Requires 2 or more layers.
  bool value_shortcut = false;
  /// Between blocks, replace the activations x by a x + b x_0. x_0 are the embedded tokens; a and b
  /// are learned scalars. Requires 2 or more layers.
  bool embedding_shortcut = false;
  /// Replace the logits by logit_cap * tanh(logits / logit_cap). 0 means no cap.
  double logit_cap = 0;
  /// Add logits from a learned (vocab, vocab) table, indexed by the current token. Requires
  /// vocab <= GPT::max_bigram_vocab.
  bool bigram = false;
  /// Replace the input x_t of each sublayer by x_t + w (x_{t-1} - x_t), see nn::token_shift. The
  /// weights w (dim) are learned.
  bool token_shift = false;
  /// If above 0, backward recomputes the activations of this many blocks at a time, to save memory.
  /// 0 keeps all activations instead. save_model() does not store this option.
  int64_t recompute = 0;
  /// Number of tokens whose logits loss() computes at a time, to save memory; backward recomputes
  /// the logits. 0 computes all logits at once and keeps them. Other values may change the rounding
  /// of the loss. save_model() does not store this option.
  int64_t logit_rows = 0;
};

class GPTDecoder;

/// The model: token and position embeddings, pre-norm blocks, a final norm, and a linear layer to
/// logits. As in GPT-2, matrices are initially normal with standard deviation 0.02, or
/// 0.02 / sqrt(2 * layers) in layers that write to the residual stream. Biases are initially 0.
/// With zero_init or bigram, some matrices are initially 0 instead.
struct GPT : nn::Module {
  using Config = GPTConfig;
  static constexpr const char* kind = "gpt";
  static Fields fields(GPTConfig& config);

  /// The largest vocabulary for which a GPT can have a bigram table.
  static constexpr int64_t max_bigram_vocab = 8192;

  const GPTConfig config;
  nn::Embedding wte;                                  ///< token embeddings: (vocab, dim)
  std::optional<nn::LearnedPositions> wpe;            ///< learned position embeddings, if used
  std::optional<nn::SinusoidalPositions> sinusoidal;  ///< sinusoidal positions, if used
  nn::Dropout dropout;                                ///< applied to the embedded tokens
  std::vector<nn::Block> blocks;                      ///< pre-norm, causal
  nn::Norm ln_f;                                      ///< applied to the last block's output
  nn::Linear head;                                    ///< dim -> vocab, without bias
  ///@{
  /// Learned scalars (layers - 1) if config.embedding_shortcut is true, undefined otherwise. Block
  /// i + 1 reads stream_mix[i] x + embedding_mix[i] x_0, where x is the output of block i and x_0
  /// are the embedded tokens. Initially, stream_mix is 1 and embedding_mix is 0.
  const Tensor stream_mix, embedding_mix;
  ///@}
  /// Learned table (vocab, vocab) if config.bigram is true, undefined otherwise. Row i is added to
  /// the next-token logits at each token with id i. Initially 0.
  const Tensor bigram;
  explicit GPT(const GPTConfig& config);

  /// Returns next-token logits at each position: ids (B, T) int64 -> (B, T, vocab). Throws Error if
  /// T is larger than config.context. With `positions` (B, T) int64, a row may consist of several
  /// examples, one after another. `positions` counts the tokens of each example from 0, and tokens
  /// attend only to tokens of their own example.
  Tensor operator()(const Tensor& ids, const Tensor& positions = {}) const;
  /// Returns the mean cross entropy of the logits for `targets` (B, T) int64, the next token after
  /// each of `ids`. `positions` is explained at operator(). Targets of -100 are ignored; if all
  /// targets are -100, the mean is NaN.
  Tensor loss(const Tensor& ids, const Tensor& targets, const Tensor& positions = {}) const;

  /// Returns a decoder for `rows` sequences of up to config.context tokens. The model must outlive
  /// the decoder.
  GPTDecoder decoder(int64_t rows = 1) const&;
  GPTDecoder decoder(int64_t rows = 1) const&& = delete;

 private:
  friend class GPTDecoder;
  static Config checked_config(Config config);
  Tensor embed(const Tensor& ids, int64_t offset, const Tensor& positions = {}) const;
  nn::Block make_block(int64_t index, Tensor& positions) const;
  Tensor apply_blocks(Tensor x, const Tensor& mask,
                      std::vector<nn::KeyValueCache>* caches = nullptr) const;
  Tensor logits(const Tensor& x, const Tensor& ids) const;
};

/// The decoder of a GPT, with a key/value cache per block. All rows have the same length unless
/// add_row() has added one of another length. While lengths differ, each call of next_logits()
/// reads one token per row, and room() says how many more tokens the longest row can read.
class GPTDecoder : public Decoder {
 public:
  GPTDecoder(const GPT& model, int64_t rows);
  int64_t vocab() const override { return model_->config.vocab; }
  /// Reads `ids`, int64 (rows, T), and returns the logits of the token after them: (rows, vocab).
  /// Throws Error if gradients are being recorded, if `ids` has another shape or dtype, if an id is
  /// not in the vocabulary, if T < 1 or T > room(), if T > 1 while rows differ in length, or if
  /// this decoder was moved from.
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override {
    return layers_.empty() ? 0 : capacity() - layers_.front().length();  // empty after a move
  }
  /// Returns the maximum number of tokens in a row, config.context.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;
  /// Returns, for each row, the number of tokens that it has read. Throws Error if this decoder was
  /// moved from.
  const std::vector<int64_t>& lengths() const;
  /// Appends a copy of the row of `other`. Throws Error unless `other` is a decoder of the same
  /// model, was constructed for one row and still has it. Also throws Error if this decoder is full
  /// (it holds at most as many rows as at construction) or if either decoder was moved from.
  void add_row(const GPTDecoder& other);
  /// Removes a row. The last row moves to its index. Throws Error if there is no such row.
  void remove_row(int64_t row);

 private:
  const GPT* model_;
  std::vector<nn::KeyValueCache> layers_;
};

}  // namespace gradus::models
