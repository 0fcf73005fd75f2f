#pragma once
// Position embeddings, added to token embeddings.

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
