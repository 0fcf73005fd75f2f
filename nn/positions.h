#pragma once
// Positions of tokens: embeddings added to token embeddings, angles of rotary positions, rows of
// several examples, and token shift.

#include "gradus/nn/module.h"

namespace gradus::nn {

class KeyValueCache;

/// Returns (length, dim) with sin(t / 10000^(2i/dim)) at row t, column 2i, and the cosine of the
/// same angle at column 2i+1, in float32 or float64. Vaswani et al. 2017, arXiv 1706.03762, section
/// 3.5.
Tensor sinusoidal_positions(int64_t length, int64_t dim, Dtype dtype = float32);
/// The same as a function of the dtype, for Module::buffer.
inline auto sinusoidal_table(int64_t length, int64_t dim) {
  return [=](Dtype dtype) { return sinusoidal_positions(length, dim, dtype); };
}

/// The frequencies of rotary positions. With a `factor`, those of Llama 3.1, for longer contexts than
/// the one trained with: a pair of features that turns fewer than `low_turns` times within
/// `trained_context` tokens turns `factor` times slower, one that turns more than `high_turns` times
/// is unchanged, and frequencies between are interpolated (Llama Team 2024, arXiv 2407.21783).
struct RotaryOptions {
  double theta = 1e4;              ///< pair i of D features turns by theta^(-2i/D) per token
  double factor = 1;               ///< of the slowest pairs; 1: frequencies are not scaled
  double low_turns = 1;            ///< pairs that turn fewer times are scaled by the whole factor
  double high_turns = 4;           ///< pairs that turn more often are not scaled
  int64_t trained_context = 8192;  ///< tokens within which turns are counted
  bool operator==(const RotaryOptions&) const = default;
};
/// Sines and cosines for rotary(): (length, dim), in float32 or float64, as sinusoidal_positions()
/// with other frequencies; the same table with the default options. Throws Error unless theta > 0,
/// factor >= 1, 0 <= low_turns < high_turns and trained_context > 0.
Tensor rotary_positions(int64_t length, int64_t dim, const RotaryOptions& options = {},
                        Dtype dtype = float32);

/// Learned position embeddings.
struct LearnedPositions : Module {
  const Tensor weight;  ///< (context, dim): one row per position
  LearnedPositions(int64_t context, int64_t dim);
  /// Embeddings of positions offset to offset + length - 1: (length, dim).
  Tensor operator()(int64_t length, int64_t offset = 0) const;
  /// Embeddings of the positions (...) int64: (..., dim).
  Tensor operator()(const Tensor& positions) const;
};

/// Sinusoidal position embeddings.
struct SinusoidalPositions : Module {
  const Tensor table;  ///< (context, dim): one row per position; not in the state dict
  SinusoidalPositions(int64_t context, int64_t dim);
  /// Embeddings of positions offset to offset + length - 1: (length, dim).
  Tensor operator()(int64_t length, int64_t offset = 0) const;
  /// Embeddings of the positions (...) int64: (..., dim).
  Tensor operator()(const Tensor& positions) const;
};

/// The attention mask of rows of tokens x (B, T, ...) that hold several examples, one after another:
/// true where key j is not before the first token of query i's example; (B, 1, T, T). `positions`
/// (B, T) int64 counts each example's tokens from 0; if undefined, so is the mask. Throws Error on
/// positions that count otherwise.
Tensor same_example(const Tensor& x, const Tensor& positions);

/// x (B, T, dim) with each token's features mixed with the previous token's, which are 0 before the
/// first: x_t + weight * (x_{t-1} - x_t), weight (dim). Returns x if the weight is undefined. With an
/// attention mask (B, 1, T, T) of bool, the previous token counts as 0 where it is hidden. The token
/// shift of RWKV (Peng et al. 2023, arXiv 2305.13048), whose mu is 1 - weight and differs for each
/// projection.
Tensor token_shift(const Tensor& x, const Tensor& weight, const Tensor& mask = {});
/// The same for the next tokens, x, of a block's sublayer 0 or 1.
Tensor token_shift(const Tensor& x, const Tensor& weight, KeyValueCache& cache, size_t sublayer);

}  // namespace gradus::nn
