#pragma once
// The transformer's blocks, a paper each: (B, T, dim) -> (B, T, dim).

#include "gradus/nn/attention.h"

namespace gradus::nn {

struct BlockOptions {
  int64_t heads = 1;                         ///< of queries; dim must be a multiple
  int64_t kv_heads = 0;                      ///< 0: as many as heads
  int64_t hidden = 0;                        ///< of the MLP; 0: 4 dim
  Activation activation = Activation::gelu;  ///< of the MLP
  bool gated = false;                        ///< the MLP's hidden layer
  bool causal = false;                       ///< a token sees itself and those before it only
  bool bias = true;                          ///< in every linear layer and norm
  double dropout = 0;                        ///< of attention weights and of what is added to x
  double hidden_dropout = 0;                 ///< of the MLP's hidden numbers
  NormKind norm = NormKind::layer;           ///< of ln1 and ln2
  double eps = 1e-5;                         ///< of the norms
  int64_t rotary = 0;                        ///< the most places, for rotary positions
};
/// The pre-norm transformer block (Radford et al. 2019, "Language Models are Unsupervised Multitask
/// Learners", section 2.3).
struct Block : Module {
  Norm ln1;                 ///< before attention
  MultiHeadAttention attn;  ///< dim -> dim
  Norm ln2;                 ///< before the MLP
  MLP mlp;                  ///< dim -> dim
  Block(int64_t dim, const BlockOptions& options);

  /// mask: as MultiHeadAttention's.
  Tensor operator()(const Tensor& x, const Tensor& mask = {}) const {
    const Tensor h = x + attn(ln1(x), mask);
    return h + mlp(ln2(h));
  }
  /// x holds the next T tokens, which see the cache's too and are appended to it. Causal only.
  Tensor operator()(const Tensor& x, KeyValueCache& cache) const {
    const Tensor h = x + attn(ln1(x), cache);
    return h + mlp(ln2(h));
  }
  /// What becomes of x's first `count` tokens alone, which see all: (B, count, dim), at the price of
  /// keys and values for the others. Throws Error if attention is causal or rotary, and unless count
  /// is from 1 to T.
  Tensor first(int64_t count, const Tensor& x) const;
};

/// The post-norm block of an encoder (Vaswani et al. 2017, section 3.1; BERT's: Devlin et al. 2019).
struct PostNormBlock : Block {
  using Block::Block;
  Tensor first(int64_t count, const Tensor& x) const = delete;  // norms stand elsewhere here
  Tensor operator()(const Tensor& x, const Tensor& mask = {}) const {
    const Tensor h = ln1(x + attn(x, mask));
    return ln2(h + mlp(h));
  }
};

struct LlamaBlockOptions {
  int64_t heads = 1;       ///< of queries; dim must be a multiple
  int64_t kv_heads = 0;    ///< 0: as many as heads
  int64_t hidden = 0;      ///< of the SwiGLU; 0: its default
  int64_t context = 1024;  ///< the most places
  double dropout = 0;      ///< of attention weights and of what is added to x
};
/// Today's decoder block: RMSNorm, rotary positions, SwiGLU, no biases. Touvron et al. 2023, arXiv
/// 2302.13971, section 2.2.
struct LlamaBlock : Block {
  LlamaBlock(int64_t dim, const LlamaBlockOptions& options);
};

/// The block of a decoder with attention to what the encoder made of the source; pre-norm (Xiong et
/// al. 2020, arXiv 2002.04745).
struct DecoderBlock : Module {
  Norm ln1;                  ///< before self-attention
  MultiHeadAttention attn;   ///< causal
  Norm ln2;                  ///< before cross-attention
  MultiHeadAttention cross;  ///< to the encoder's output
  Norm ln3;                  ///< before the MLP
  MLP mlp;                   ///< dim -> dim
  DecoderBlock(int64_t dim, const BlockOptions& options);

  /// x (B, T, dim); `memory` is what cross.keys_and_values makes of the encoder's output, memory_mask
  /// as cross-attention's. With a cache, x holds the next tokens.
  Tensor operator()(const Tensor& x, const KeysAndValues& memory, const Tensor& memory_mask = {},
                    KeyValueCache* cache = nullptr) const {
    const Tensor h = x + itself(ln1(x), cache);
    const Tensor g = h + cross.cross(ln2(h), memory, memory_mask);
    return g + mlp(ln3(g));
  }

 protected:
  /// Self-attention, with a cache or without.
  Tensor itself(const Tensor& x, KeyValueCache* cache) const {
    return cache ? attn(x, *cache) : attn(x);
  }
};

/// The same with the norms behind, as published first: Vaswani et al. 2017, section 3.1.
struct PostNormDecoderBlock : DecoderBlock {
  using DecoderBlock::DecoderBlock;
  Tensor operator()(const Tensor& x, const KeysAndValues& memory, const Tensor& memory_mask = {},
                    KeyValueCache* cache = nullptr) const {
    const Tensor h = ln1(x + itself(x, cache));
    const Tensor g = ln2(h + cross.cross(h, memory, memory_mask));
    return ln3(g + mlp(g));
  }
};

}  // namespace gradus::nn
