#pragma once
// Transformer blocks: (B, T, dim) -> (B, T, dim).

#include "gradus/nn/attention.h"

namespace gradus::nn {

/// A sublayer f with its residual connection. With norm_first ("pre-norm"): x + f(norm(x)); Radford
/// et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3; Xiong et al.
/// 2020, arXiv 2002.04745. Without ("post-norm"): norm(x + f(x)); Vaswani et al. 2017, section 3.1;
/// Devlin et al. 2019.
template <class Sublayer>
Tensor residual(bool norm_first, const Norm& norm, const Tensor& x, const Sublayer& f) {
  if (norm_first) return x + f(norm(x));
  return norm(x + f(x));
}

struct BlockOptions {
  int64_t heads = 1;                         ///< query heads; must divide dim unless head_dim > 0
  int64_t kv_heads = 0;                      ///< key/value heads, a divisor of `heads`; 0: `heads`
  int64_t head_dim = 0;                      ///< size of an attention head; 0: dim / heads
  int64_t hidden = 0;                        ///< hidden size of the MLP; 0: 4 * dim
  Activation activation = Activation::gelu;  ///< of the MLP
  bool gated = false;                        ///< whether the MLP is gated, see MLPOptions
  bool causal = false;              ///< tokens attend only to themselves and earlier tokens
  bool bias = true;                 ///< in all linear layers and norms
  bool qkv_bias = false;            ///< a bias of queries, keys and values, with or without `bias`
  double dropout = 0;               ///< of attention weights and sublayer outputs
  double hidden_dropout = 0;        ///< of the MLP's hidden layer
  bool norm_first = true;           ///< pre-norm; false: post-norm
  NormKind norm = NormKind::layer;  ///< whether the norms are LayerNorm or RMSNorm
  double eps = 1e-5;                ///< added by the norms to the variance or mean square
  int64_t rotary = 0;               ///< rotary positions for at most this many tokens; 0: none
  RotaryOptions frequencies = {};   ///< of rotary positions
  Tensor positions = {};            ///< to share a table, see MultiHeadAttentionOptions
  int64_t window = 0;               ///< of causal attention, see MultiHeadAttentionOptions; 0: none
  bool qk_norm = false;             ///< RMSNorm of queries and keys, see MultiHeadAttentionOptions
  bool value_shortcut = false;      ///< shortcut from first_values, see MultiHeadAttentionOptions
  bool token_shift = false;         ///< token_shift() of both sublayers' inputs, weights at first 0
};
/// An encoder block, or a decoder-only block if causal: self-attention, then an MLP.
struct Block : Module {
  bool norm_first;              ///< pre-norm, see residual()
  Norm ln1;                     ///< attention's norm
  MultiHeadAttention attn;      ///< self-attention, dim -> dim
  Norm ln2;                     ///< the MLP's norm
  MLP mlp;                      ///< dim -> dim
  const Tensor shift1, shift2;  ///< if token_shift: (dim), of attention's and of the MLP's input
  Block(int64_t dim, const BlockOptions& options);

  /// mask, first_values: as for MultiHeadAttention.
  Tensor operator()(const Tensor& x, const Tensor& mask = {},
                    Tensor* first_values = nullptr) const {
    const Tensor h = residual(norm_first, ln1, x, [&](const Tensor& y) {
      return attn(token_shift(y, shift1, mask), mask, first_values);
    });
    return residual(norm_first, ln2, h,
                    [&](const Tensor& y) { return mlp(token_shift(y, shift2, mask)); });
  }
  /// The block for the next T tokens, x, which attend to the cached tokens too and are appended to
  /// the cache. Causal attention only.
  Tensor operator()(const Tensor& x, KeyValueCache& cache, Tensor* first_values = nullptr) const {
    const Tensor h = residual(norm_first, ln1, x, [&](const Tensor& y) {
      return attn(token_shift(y, shift1, cache, 0), cache, first_values);
    });
    return residual(norm_first, ln2, h,
                    [&](const Tensor& y) { return mlp(token_shift(y, shift2, cache, 1)); });
  }
  /// Returns only the first `count` tokens' outputs, (B, count, dim). These tokens attend to all of
  /// x; queries and MLP of the others are not computed. Throws Error if the attention is causal or
  /// rotary, if the block has token_shift or value_shortcut, or if count is not from 1 to T.
  Tensor first(int64_t count, const Tensor& x) const;
};

struct LlamaBlockOptions {
  int64_t heads = 1;       ///< query heads; must divide dim
  int64_t kv_heads = 0;    ///< key/value heads, a divisor of `heads`; 0: `heads`
  int64_t hidden = 0;      ///< hidden size of the SwiGLU; 0: SwiGLU::hidden_size(dim)
  int64_t context = 1024;  ///< maximum number of tokens
  double dropout = 0;      ///< of attention weights and sublayer outputs
  int64_t window = 0;      ///< of attention, see MultiHeadAttentionOptions; 0: none
};
/// The decoder block of Llama: pre-norm with RMSNorm, rotary positions, SwiGLU, no biases. Touvron
/// et al. 2023, arXiv 2302.13971, section 2.2. With a window, that of Mistral: Jiang et al. 2023,
/// arXiv 2310.06825.
Block llama_block(int64_t dim, const LlamaBlockOptions& options);

/// The decoder block of an encoder-decoder: causal self-attention, cross-attention to the encoder's
/// output, then an MLP.
struct DecoderBlock : Module {
  bool norm_first;           ///< pre-norm, see residual()
  Norm ln1;                  ///< self-attention's norm
  MultiHeadAttention attn;   ///< causal self-attention
  Norm ln2;                  ///< cross-attention's norm
  MultiHeadAttention cross;  ///< cross-attention to the encoder's output
  Norm ln3;                  ///< the MLP's norm
  MLP mlp;                   ///< dim -> dim
  DecoderBlock(int64_t dim, const BlockOptions& options);

  /// x (B, T, dim). `memory` is cross.keys_and_values(encoder output); `memory_mask` is a mask as
  /// for MultiHeadAttention::cross. If `cache` is given, x holds the next tokens only, which attend
  /// to the cached tokens too and are appended to the cache.
  Tensor operator()(const Tensor& x, const KeysAndValues& memory, const Tensor& memory_mask = {},
                    KeyValueCache* cache = nullptr) const {
    const Tensor h = residual(norm_first, ln1, x,
                              [&](const Tensor& y) { return cache ? attn(y, *cache) : attn(y); });
    const Tensor g = residual(norm_first, ln2, h,
                              [&](const Tensor& y) { return cross.cross(y, memory, memory_mask); });
    return residual(norm_first, ln3, g, mlp);
  }
};

}  // namespace gradus::nn
