#pragma once
// Where in the sequence: rows to be added to the embedded tokens.

#include "gradus/nn/module.h"

namespace gradus::nn {

/// PE(t, 2i) = sin(t / 10000^(2i/dim)), PE(t, 2i+1) = cos of the same: (length, dim). Vaswani et
/// al. 2017, arXiv 1706.03762, section 3.5.
Tensor sinusoidal_positions(int64_t length, int64_t dim);

/// Positions as a table of parameters.
struct LearnedPositions : Module {
  const Tensor weight;  ///< (context, dim)
  LearnedPositions(int64_t context, int64_t dim);
  /// Rows offset ... offset + length - 1: (length, dim).
  Tensor operator()(int64_t length, int64_t offset = 0) const;
};

/// Positions as a fixed table.
struct SinusoidalPositions : Module {
  const Tensor table;  ///< (context, dim), not saved with the state
  SinusoidalPositions(int64_t context, int64_t dim);
  /// Rows offset ... offset + length - 1: (length, dim).
  Tensor operator()(int64_t length, int64_t offset = 0) const;
};

}  // namespace gradus::nn
