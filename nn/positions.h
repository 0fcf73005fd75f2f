#pragma once
// Positions of tokens: position embeddings, tables for rotary positions, masks for rows that
// contain several examples, and token shift.

#include "gradus/nn/module.h"

namespace gradus::nn {

class KeyValueCache;

/// Returns a table (length, dim), float32 or float64: row t holds sin(t / 10000^(2i/dim)) at column
/// 2i, and the cosine of the same angle at column 2i+1. Throws Error if length or dim is below 1.
/// Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
Tensor sinusoidal_positions(int64_t length, int64_t dim, Dtype dtype = float32);
/// Returns sinusoidal_positions(length, dim, dtype) as a function of dtype, for Module::buffer.
inline auto sinusoidal_table(int64_t length, int64_t dim) {
  return [=](Dtype dtype) { return sinusoidal_positions(length, dim, dtype); };
}

/// The frequencies of rotary positions. If factor > 1, the frequencies are scaled as in Llama 3.1,
/// for contexts longer than in training. A pair of features that makes fewer than `low_turns` full
/// turns within `trained_context` tokens then rotates `factor` times slower. A pair that makes more
/// than `high_turns` turns is unchanged. Frequencies in between are interpolated (Llama Team 2024,
/// arXiv 2407.21783).
struct RotaryOptions {
  double theta = 1e4;     ///< feature pair i rotates by theta^(-2i/dim) radians per token before
                          ///< scaling by `factor`; dim is the number of features
  double factor = 1;      ///< divides the slowest frequencies; 1 means no scaling
  double low_turns = 1;   ///< feature pairs that make fewer turns than this within trained_context
                          ///< rotate `factor` times slower
  double high_turns = 4;  ///< feature pairs that make more turns than this within trained_context
                          ///< keep their frequency
  /// Length of the contexts in training, in tokens. low_turns and high_turns are numbers of full
  /// turns within this length.
  int64_t trained_context = 8192;
  bool operator==(const RotaryOptions&) const = default;
};
/// Returns the table of sines and cosines for rotary(): (length, dim), float32 or float64. rotary()
/// rotates the features of each token in pairs. Row t is for the token at position t: columns 2i
/// and 2i+1 hold the sine and the cosine of the angle of pair i. With the default options this is
/// the table of sinusoidal_positions(). Throws Error unless length, dim, theta and trained_context
/// are positive, factor >= 1 and 0 <= low_turns < high_turns.
Tensor rotary_positions(int64_t length, int64_t dim, const RotaryOptions& options = {},
                        Dtype dtype = float32);

/// Learned position embeddings.
struct LearnedPositions : Module {
  const Tensor weight;  ///< (context, dim): one row per position
  LearnedPositions(int64_t context, int64_t dim);
  /// Returns the embeddings of positions offset to offset + length - 1: (length, dim). Throws Error
  /// if `length` or `offset` is below 0, or if offset + length > context.
  Tensor operator()(int64_t length, int64_t offset = 0) const;
  /// Returns the embeddings of the given positions: (...) int64 -> (..., dim). Throws Error if a
  /// position is outside [0, context).
  Tensor operator()(const Tensor& positions) const;
};

/// Sinusoidal position embeddings.
struct SinusoidalPositions : Module {
  const Tensor table;  ///< (context, dim): one row per position; not in the state dict
  SinusoidalPositions(int64_t context, int64_t dim);
  /// Returns the embeddings of positions offset to offset + length - 1: (length, dim). Throws Error
  /// if `length` or `offset` is below 0, or if offset + length > context.
  Tensor operator()(int64_t length, int64_t offset = 0) const;
  /// Returns the embeddings of the given positions: (...) int64 -> (..., dim). Throws Error if a
  /// position is outside [0, context).
  Tensor operator()(const Tensor& positions) const;
};

/// Returns an attention mask, bool (B, 1, T, T), for rows x (B, T, ...) that contain several
/// examples one after another (packed sequences). The mask hides earlier examples: it is true where
/// key j is at or after the first token of query i's example. The mask does not hide keys after the
/// query; causal attention does. `positions` (B, T) int64 counts the tokens of each example from 0.
/// Returns an undefined tensor if `positions` is undefined. Throws Error unless each row of
/// `positions` starts at 0, and each later position either is 0 (a new example) or continues the
/// count.
Tensor same_example(const Tensor& x, const Tensor& positions);

/// Returns x (B, T, dim) with the features of each token mixed with those of the previous token:
/// x_t + weight * (x_{t-1} - x_t). `weight` is (dim); if it is undefined, returns x. For the first
/// token, x_{t-1} is 0. `mask` may be a bool attention mask (B, 1, T, T). x_{t-1} is then also 0
/// for tokens that may not attend to the previous token. This is the token shift of RWKV (Peng et
/// al. 2023, arXiv 2305.13048) with mu = 1 - weight, but RWKV has a mu for each projection. Throws
/// Error for another shape of x, `weight` or `mask`, or if x and `weight` differ in dtype.
Tensor token_shift(const Tensor& x, const Tensor& weight, const Tensor& mask = {});
/// Returns token_shift(x, weight) for decoding with a cache. x (B, T, dim) contains the features of
/// the next T >= 1 tokens of the sequences in `cache`, at the input of attention (`sublayer` 0) or
/// of the MLP (`sublayer` 1) in a transformer block. The token before x's first token is the one
/// that `cache` saved last for this sublayer, or 0 if there is none. If `save`, `cache` saves the
/// features of x's last token. Throws Error, with nothing saved, if a shape or dtype is wrong, if
/// `sublayer` is above 1, or if gradients are being recorded. If `weight` is undefined, only
/// returns x: saves nothing and does not throw.
Tensor token_shift(const Tensor& x, const Tensor& weight, KeyValueCache& cache, size_t sublayer,
                   bool save = true);

}  // namespace gradus::nn
