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
  double dropout = 0;    ///< probability for embeddings, attention weights and sublayer outputs
  bool bias = false;     ///< add biases in the linear layers, except the head, and in LayerNorms
  bool tie = true;       ///< share the token embedding's weight with the output layer
  Activation activation = Activation::gelu;  ///< activation of the feed-forward layers
  bool gated = false;    ///< gated feed-forward layers, see nn::MLPOptions; with silu: SwiGLU
  int64_t hidden = 0;    ///< feed-forward hidden size; 0 means 4 * dim, or about 8/3 * dim if gated
  int64_t kv_heads = 0;  ///< key/value heads; must divide heads; 0 means heads
  int64_t head_dim = 0;  ///< size of a head, an even number if rotary; 0 means dim / heads
  bool qkv_bias = false;  ///< add biases to queries, keys and values even if `bias` is false
  Positions positions = Positions::learned;  ///< position encoding
  nn::RotaryOptions rotary = {};             ///< frequencies of rotary positions
  nn::NormKind norm = nn::NormKind::layer;   ///< kind of ln1, ln2 and ln_f: LayerNorm or RMSNorm
  double norm_eps = 1e-5;                    ///< added by the norms to variance or mean square
  int64_t window = 0;                        ///< attention window in tokens; 0 means the whole
                                             ///< context
  // The options from here to token_shift let training reach a given loss in fewer steps.
  bool qk_norm = false;    ///< RMSNorm of each head's queries and keys, see nn::MultiHeadAttention
  bool zero_init = false;  ///< initialise at 0 the layers that write to the residual stream, and an
                           ///< untied head
  bool value_shortcut = false;      ///< mix the first block's values into those of later blocks;
                                    ///< requires 2 or more layers
  bool embedding_shortcut = false;  ///< x = a x + b x_0 between blocks; x_0: the embedded tokens;
                                    ///< requires 2 or more layers
  double logit_cap = 0;             ///< logits become cap * tanh(logits / cap); 0 means no cap
  bool bigram = false;  ///< add logits from a (vocab, vocab) table, indexed by the current token;
                        ///< requires vocab <= GPT::max_bigram_vocab
  bool token_shift = false;  ///< mix each sublayer's input with the previous token's input, see
                             ///< nn::token_shift
  /// If above 0, backward recomputes the activations of all blocks, this many blocks at a time, to
  /// save memory. 0 keeps all activations. A model folder does not store it.
  int64_t recompute = 0;
  /// If above 0, loss() computes the logits of this many tokens at a time, and backward recomputes
  /// them, to save memory. This may change the rounding of the loss. 0 computes all logits at once
  /// and keeps them. A model folder does not store it.
  int64_t logit_rows = 0;
};

class GPTDecoder;

/// The model: token and position embeddings, pre-norm blocks, a final norm, and a linear layer to
/// logits. As in GPT-2, its matrices are initially normal with standard deviation 0.02, or
/// 0.02 / sqrt(2 layers) in layers that write to the residual stream, and its biases are 0. For
/// exceptions see zero_init and bigram.
struct GPT : nn::Module {
  using Config = GPTConfig;
  static constexpr const char* kind = "gpt";
  static Fields fields(GPTConfig& config);

  /// The largest vocabulary for which a GPT can have a bigram table.
  static constexpr int64_t max_bigram_vocab = 8192;

  const GPTConfig config;
  nn::Embedding wte;                                  ///< token embeddings: (vocab, dim)
  std::optional<nn::LearnedPositions> wpe;            ///< only with learned positions
  std::optional<nn::SinusoidalPositions> sinusoidal;  ///< only with sinusoidal positions
  nn::Dropout dropout;                                ///< applied to the embedded tokens
  std::vector<nn::Block> blocks;                      ///< pre-norm, causal
  nn::Norm ln_f;                                      ///< applied to the last block's output
  nn::Linear head;                                    ///< dim -> vocab, without bias
  ///@{
  /// If embedding_shortcut: (layers - 1), the scalars a (initially 1) and b (initially 0) after
  /// each block but the last.
  const Tensor stream_mix, embedding_mix;
  ///@}
  const Tensor bigram;  ///< if bigram: row i, initially 0, is added to the logits after token id i
  explicit GPT(const GPTConfig& config);

  /// Returns next-token logits at each position: ids (B, T) int64 -> (B, T, vocab), T <= context. A
  /// row may consist of several examples, one after another. Then `positions` (B, T) int64 counts
  /// the tokens of each example from 0, and tokens attend only to tokens of their own example.
  Tensor operator()(const Tensor& ids, const Tensor& positions = {}) const;
  /// Returns the mean cross entropy of the next tokens `targets` (B, T) int64. Targets of -100 are
  /// ignored; if all targets are -100, the mean is NaN.
  Tensor loss(const Tensor& ids, const Tensor& targets, const Tensor& positions = {}) const;

  /// Returns a decoder for `rows` sequences of up to `context` tokens. The model must outlive the
  /// decoder.
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
/// add_row() adds one of a different length. While lengths differ, next_logits() reads one token
/// per row, and room() is the room of the longest row.
class GPTDecoder : public Decoder {
 public:
  GPTDecoder(const GPT& model, int64_t rows);
  int64_t vocab() const override { return model_->config.vocab; }
  /// Returns the next-token logits after the last of ids. Throws Error if gradients are being
  /// recorded, or unless ids are (rows, T) int64, from 0 to vocab() - 1, with 1 <= T <= room() and,
  /// while lengths differ, T = 1.
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override {
    return layers_.empty() ? 0 : capacity() - layers_.front().length();  // empty after a move
  }
  /// Returns the maximum length, config.context.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;
  /// Returns the number of tokens read, per row.
  const std::vector<int64_t>& lengths() const { return layers_.front().lengths(); }
  /// Appends a copy of the only row of `other`. Throws Error if `other` is a decoder of another
  /// model or was not made for one row, if that row was removed, or if there are already as many
  /// rows as at construction.
  void add_row(const GPTDecoder& other);
  /// Removes a row. The last row takes its index. Throws Error if there is no such row.
  void remove_row(int64_t row);

 private:
  const GPT* model_;
  std::vector<nn::KeyValueCache> layers_;
};

}  // namespace gradus::models
