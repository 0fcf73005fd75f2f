#pragma once
// Transformer blocks: (B, T, dim) -> (B, T, dim).

#include "gradus/nn/attention.h"

namespace gradus::nn {

/// Applies a sublayer f with its residual connection. With norm_first ("pre-norm") it returns x +
/// f(norm(x)): Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section
/// 2.3; Xiong et al. 2020, arXiv 2002.04745. Otherwise ("post-norm") it returns norm(x + f(x)):
/// Vaswani et al. 2017, section 3.1; Devlin et al. 2019.
template <class Sublayer>
Tensor residual(bool norm_first, const Norm& norm, const Tensor& x, const Sublayer& f) {
  if (norm_first) return x + f(norm(x));
  return norm(x + f(x));
}

struct BlockOptions {
  int64_t heads = 1;     ///< number of query heads; must divide dim if head_dim is 0
  int64_t kv_heads = 0;  ///< number of key/value heads, a divisor of `heads`; 0 means `heads`
  int64_t head_dim = 0;  ///< size of an attention head; 0 means dim / heads
  int64_t hidden = 0;    ///< hidden size of the MLP; 0 means 4 * dim
  Activation activation = Activation::gelu;  ///< activation of the MLP
  bool gated = false;                        ///< whether the MLP is gated, see MLPOptions
  bool causal = false;        ///< tokens attend only to themselves and earlier tokens
  bool bias = true;           ///< add biases in all linear layers and LayerNorms
  bool qkv_bias = false;      ///< add biases to queries, keys and values even if `bias` is false
  double dropout = 0;         ///< dropout probability of attention weights and sublayer outputs
  double hidden_dropout = 0;  ///< dropout probability in the MLP's hidden layer
  bool norm_first = true;     ///< true: pre-norm; false: post-norm; see residual()
  NormKind norm = NormKind::layer;  ///< kind of the sublayers' norms: LayerNorm or RMSNorm
  double eps = 1e-5;                ///< added by the norms to the variance or mean square
  int64_t rotary = 0;               ///< if > 0: use rotary positions, for at most this many tokens;
                                    ///< requires an even head size
  RotaryOptions frequencies = {};   ///< frequencies of the rotary positions
  Tensor positions = {};            ///< table of rotary positions to share with another layer, see
                                    ///< MultiHeadAttentionOptions
  int64_t window = 0;               ///< each token attends to itself and window - 1 earlier ones;
                                    ///< 0: no limit; other values require `causal`
  bool qk_norm = false;             ///< apply RMSNorm to each head's queries and keys
  bool value_shortcut = false;      ///< mix this block's attention values with the first block's,
                                    ///< see MultiHeadAttentionOptions
  bool token_shift = false;         ///< apply token_shift() to the inputs of attention and MLP; its
                                    ///< weights start at 0
};

/// An encoder block or, if causal, a block of a decoder-only model: self-attention, then an MLP.
struct Block : Module {
  bool norm_first;              ///< true: pre-norm; see residual()
  Norm ln1;                     ///< norm of the attention sublayer
  MultiHeadAttention attn;      ///< self-attention, dim -> dim
  Norm ln2;                     ///< norm of the MLP sublayer
  MLP mlp;                      ///< dim -> dim
  const Tensor shift1, shift2;  ///< (dim): token_shift() weights for attn and mlp; may be undefined
  Block(int64_t dim, const BlockOptions& options);

  /// Applies the block to x (B, T, dim). `mask` and `first_values` are passed to
  /// MultiHeadAttention. If the block has token_shift, `mask` must be bool (B, 1, T, T) or
  /// undefined.
  Tensor operator()(const Tensor& x, const Tensor& mask = {},
                    Tensor* first_values = nullptr) const {
    const Tensor h = residual(norm_first, ln1, x, [&](const Tensor& y) {
      return attn(token_shift(y, shift1, mask), mask, first_values);
    });
    return residual(norm_first, ln2, h,
                    [&](const Tensor& y) { return mlp(token_shift(y, shift2, mask)); });
  }
  /// Applies the block to x (B, T, dim), the next T >= 1 tokens of the sequences in `cache`. These
  /// tokens also attend to the cached tokens, and are appended to the cache. `first_values` is
  /// passed to MultiHeadAttention. Throws Error if the attention is not causal, if gradients are
  /// being recorded, or if T > 1 and the cached sequences differ in length. Also throws Error if
  /// the tokens exceed the cache's capacity or the number of rotary positions. These errors leave
  /// the cache unchanged.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, Tensor* first_values = nullptr) const {
    const Tensor h = residual(norm_first, ln1, x, [&](const Tensor& y) {
      const Tensor out = attn(token_shift(y, shift1, cache, 0, false), cache, first_values);
      // Saves the last token after attn(): if attn() throws, the cache stays unchanged.
      if (shift1.defined()) cache.previous_tokens(0, y.slice(1, -1));
      return out;
    });
    return residual(norm_first, ln2, h,
                    [&](const Tensor& y) { return mlp(token_shift(y, shift2, cache, 1)); });
  }
  /// Returns only the outputs of the first `count` tokens of x (B, T, dim): (B, count, dim). These
  /// tokens attend to all of x. Does not compute the queries and the MLP of later tokens. Throws
  /// Error if the attention is causal or rotary, if the block has token_shift or value_shortcut, or
  /// if count is not from 1 to T.
  Tensor first(int64_t count, const Tensor& x) const;
};

struct LlamaBlockOptions {
  int64_t heads = 1;       ///< number of query heads; dim must be a multiple of 2 * heads
  int64_t kv_heads = 0;    ///< number of key/value heads, a divisor of `heads`; 0 means `heads`
  int64_t hidden = 0;      ///< hidden size of the SwiGLU; 0 means SwiGLU::hidden_size(dim)
  int64_t context = 1024;  ///< maximum number of tokens
  double dropout = 0;      ///< dropout probability of attention weights and sublayer outputs
  int64_t window = 0;      ///< tokens attend to themselves and window - 1 earlier ones; 0: no limit
};
/// Returns the decoder block of Llama: pre-norm with RMSNorm, rotary positions, SwiGLU, no biases.
/// Touvron et al. 2023, arXiv 2302.13971, section 2.2. With a window it is the block of Mistral:
/// Jiang et al. 2023, arXiv 2310.06825.
Block llama_block(int64_t dim, const LlamaBlockOptions& options);

/// A decoder block of an encoder-decoder model: causal self-attention, cross-attention to the
/// encoder's output, then an MLP.
struct DecoderBlock : Module {
  bool norm_first;           ///< true: pre-norm; see residual()
  Norm ln1;                  ///< norm of self-attention
  MultiHeadAttention attn;   ///< causal self-attention
  Norm ln2;                  ///< norm of cross-attention
  MultiHeadAttention cross;  ///< cross-attention to the encoder's output
  Norm ln3;                  ///< norm of the MLP
  MLP mlp;                   ///< dim -> dim
  /// Makes a block whose self-attention is causal even if options.causal is false. Rotary positions
  /// and the window apply to self-attention only. Throws Error if options.value_shortcut or
  /// options.token_shift is true.
  DecoderBlock(int64_t dim, const BlockOptions& options);

  /// Applies the block to x (B, T, dim). `memory` is cross.keys_and_values(encoder output), and
  /// `memory_mask` is passed to MultiHeadAttention::cross. If `cache` is given, x is only the next
  /// T tokens of the sequences in `cache`. These tokens also attend to the cached tokens, and are
  /// appended to the cache. Throws the errors of MultiHeadAttention, with the cache unchanged.
  Tensor operator()(const Tensor& x, const KeysAndValues& memory, const Tensor& memory_mask = {},
                    KeyValueCache* cache = nullptr) const {
    const KeyValueCache::Rollback rollback{cache};
    const Tensor h = residual(norm_first, ln1, x,
                              [&](const Tensor& y) { return cache ? attn(y, *cache) : attn(y); });
    const Tensor g = residual(norm_first, ln2, h,
                              [&](const Tensor& y) { return cross.cross(y, memory, memory_mask); });
    return residual(norm_first, ln3, g, mlp);
  }
};

}  // namespace gradus::nn
