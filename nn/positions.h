#pragma once
// Position embeddings, added to token embeddings, and the angles of rotary positions.

#include "gradus/nn/module.h"

namespace gradus::nn {

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
};

/// Sinusoidal position embeddings.
struct SinusoidalPositions : Module {
  const Tensor table;  ///< (context, dim): one row per position; not in the state dict
  SinusoidalPositions(int64_t context, int64_t dim);
  /// Embeddings of positions offset to offset + length - 1: (length, dim).
  Tensor operator()(int64_t length, int64_t offset = 0) const;
};

}  // namespace gradus::nn
