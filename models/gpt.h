#pragma once
// GPT: a decoder-only transformer language model. Radford et al. 2019, "Language Models are
// Unsupervised Multitask Learners". Options give Llama's form: rotary positions, RMSNorm, SwiGLU,
// fewer key/value heads (Touvron et al. 2023, arXiv 2302.13971), or Mistral's, with an attention
// window (Jiang et al. 2023, arXiv 2310.06825). Capped logits: Gemma 2 (Gemma Team 2024, arXiv
// 2408.00118, section 2). Biases of queries, keys and values alone: Qwen 2 (arXiv 2407.10671).

#include <optional>

#include "gradus/core/ops/activation.h"
#include "gradus/models/decoding.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/transformer.h"

namespace gradus::models {

/// Position encoding: embeddings added to the token embeddings (learned, sinusoidal), or rotation
/// of queries and keys (rotary).
enum class Positions { learned, sinusoidal, rotary };

struct GPTConfig {
  int64_t vocab = 0;     ///< vocabulary size; required
  int64_t context = 64;  ///< maximum length of a sequence, in tokens
  int64_t layers = 4;    ///< number of transformer blocks
  int64_t heads = 4;     ///< query heads; must divide dim unless head_dim is given
  int64_t dim = 128;     ///< embedding size
  double dropout = 0;    ///< probability for embeddings, attention weights and sublayer outputs
  bool bias = false;     ///< biases in the linear layers and norms, except the head
  bool tie = true;       ///< share the token embedding's weight with the output layer
  Activation activation = Activation::gelu;  ///< of the feed-forward layers
  bool gated = false;  ///< feed-forward layers activation(a) * b of linear a, b; with silu: SwiGLU
  int64_t hidden = 0;  ///< feed-forward hidden size; 0: 4 * dim, or about 8/3 * dim if gated
  int64_t kv_heads = 0;   ///< key/value heads; must divide heads; 0: heads
  int64_t head_dim = 0;   ///< size of an attention head; 0: dim / heads
  bool qkv_bias = false;  ///< biases of queries, keys and values, with or without `bias`
  Positions positions = Positions::learned;  ///< position encoding
  nn::RotaryOptions rotary = {};             ///< frequencies of rotary positions
  nn::NormKind norm = nn::NormKind::layer;   ///< every norm's kind: LayerNorm or RMSNorm
  double norm_eps = 1e-5;                    ///< added to the variance by the norms
  int64_t window = 0;                        ///< attention window in tokens; 0: the whole context
  // Options that reach a loss in fewer steps.
  bool qk_norm = false;    ///< RMSNorm of each head's queries and keys, see nn::MultiHeadAttention
  bool zero_init = false;  ///< start layers that write to the residual stream, an untied head at 0
  bool value_shortcut = false;      ///< mix each block's values with the first block's
  bool embedding_shortcut = false;  ///< x = a x + b x_0 between blocks; x_0: the embedded tokens
  double logit_cap = 0;             ///< logits are cap * tanh(logits / cap); 0: not capped
  bool bigram = false;  ///< add logits from a (vocab, vocab) table, indexed by the current token
  bool token_shift = false;  ///< mix sublayers' inputs with the previous token's: nn::token_shift
  /// Blocks whose activations backward recomputes together, to save memory; 0: keeps all. A model
  /// folder does not store it.
  int64_t recompute = 0;
  /// Tokens whose logits loss() computes at a time, and backward again, to save memory; 0: all. Sums
  /// are then rounded differently. A model in a file does not store this.
  int64_t logit_rows = 0;
};

class GPTDecoder;

/// Token and position embeddings, pre-norm blocks, a final norm, and a linear layer to logits.
/// Initialised as GPT-2: normal with standard deviation 0.02, or 0.02 / sqrt(2 layers) for layers
/// that write to the residual stream; biases 0.
struct GPT : nn::Module {
  using Config = GPTConfig;
  static constexpr const char* kind = "gpt";
  static Fields fields(GPTConfig& config);

  /// The largest vocabulary with which a GPT can have a bigram table.
  static constexpr int64_t max_bigram_vocab = 8192;

  const GPTConfig config;
  nn::Embedding wte;                                  ///< token embeddings: (vocab, dim)
  std::optional<nn::LearnedPositions> wpe;            ///< only with learned positions
  std::optional<nn::SinusoidalPositions> sinusoidal;  ///< only with sinusoidal positions
  nn::Dropout dropout;                                ///< of the embedded tokens
  std::vector<nn::Block> blocks;                      ///< pre-norm, causal
  nn::Norm ln_f;                                      ///< of the last block's output
  nn::Linear head;                                    ///< dim -> vocab, without bias
  ///@{
  /// If embedding_shortcut: (layers - 1), the scalars a (at first 1) and b (at first 0) after each
  /// block but the last.
  const Tensor stream_mix, embedding_mix;
  ///@}
  const Tensor bigram;  ///< if bigram: row i is added to token i's next-token logits; 0 at first
  explicit GPT(const GPTConfig& config);

  /// Next-token logits at each position: ids (B, T) int64 -> (B, T, vocab), T <= context. Rows may
  /// hold several examples one after another: `positions` (B, T) int64 then counts each example's
  /// tokens from 0, and tokens attend only to their own example's.
  Tensor operator()(const Tensor& ids, const Tensor& positions = {}) const;
  /// Mean cross entropy of the next tokens `targets` (B, T), without those that are -100.
  Tensor loss(const Tensor& ids, const Tensor& targets, const Tensor& positions = {}) const;

  /// A decoder for `rows` sequences of up to `context` tokens. The model must outlive it.
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

/// Decoder of a GPT, with a key/value cache per block. Rows have one length unless add_row() brought
/// others; next_logits() then reads one token per row, and room() is that of the longest row.
class GPTDecoder : public Decoder {
 public:
  GPTDecoder(const GPT& model, int64_t rows);
  int64_t vocab() const override { return model_->config.vocab; }
  /// The next-token logits after the last of ids. Throws Error unless there is room for all of ids.
  Tensor next_logits(const Tensor& ids) override;
  void reorder(const Tensor& rows) override;
  int64_t room() const override {
    return layers_.empty() ? 0 : capacity() - layers_.front().length();  // empty after a move
  }
  /// The maximum length, config.context.
  int64_t capacity() const override { return model_->config.context; }
  void clear() override;
  /// Tokens read of each row.
  const std::vector<int64_t>& lengths() const { return layers_.front().lengths(); }
  /// Appends a copy of the only row of `other`, a decoder of the same model. Throws Error if there
  /// are as many rows as at construction.
  void add_row(const GPTDecoder& other);
  /// Removes a row; the last one takes its index.
  void remove_row(int64_t row);

 private:
  const GPT* model_;
  std::vector<nn::KeyValueCache> layers_;
};

}  // namespace gradus::models
