#pragma once
// Weights in bfloat16 or int8: conversion from and to float32, and their product with a few rows of
// float32 (ProductKernel::compressed_dots).
//
// A bfloat16 is the upper half of a float32. int8 values come in blocks of 32 along a row, the last
// block of a row may be shorter, and each block has a scale, a bfloat16: an element is its value
// times its block's scale. So an element takes 2 bytes, or 1.06.
//
// The same from basic ops: matmul(x, weight.to(float32).mT()). To write a token, a model reads each
// weight once, so its time is that of reading them.

#include <bit>
#include <cmath>
#include <cstdint>

#include "gradus/core/runtime/allocator.h"
#include "gradus/core/tensor/dtype.h"

namespace gradus::kernel {

/// Elements of an int8 matrix that share a scale.
inline constexpr int64_t scale_block = 32;

/// The nearest bfloat16, ties to even; NaN stays NaN. Values above the largest bfloat16 by half a
/// step or more become infinite.
inline uint16_t bfloat16_from(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<uint16_t>(x == x ? rounded : bits >> 16 | 0x40u);
}
inline float float_from_bfloat16(uint16_t x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x) << 16);
}

/// A row-major matrix (rows, cols) of bfloat16 or int8.
struct CompressedMatrix {
  Dtype dtype;
  int64_t rows, cols;
  const void* values;
  const uint16_t* scales;  ///< for int8: (rows, ceil(cols / scale_block)) bfloat16, else null

  /// Writes rows [begin, end) to `to` as float32.
  void decompress(int64_t begin, int64_t end, float* to) const;
};

/// y = x w^T for a few rows of x: x (m, w.cols), y (m, w.rows), float32. For int8 weights x is
/// rounded to 16 bits, 256 times as fine as the weights: integer products are faster than converting
/// each weight to float32. A NaN or infinity in a row of x makes that row of y NaN.
class CompressedProduct {
 public:
  CompressedProduct(const CompressedMatrix& w, int64_t m, const float* x, float* y);
  /// Computes columns [begin, end) of y.
  void run(int64_t begin, int64_t end) const;

 private:
  template <int64_t M>
  void int8_dots(int64_t row, int64_t i) const;
  template <int64_t M>
  void bfloat16_dots(int64_t row, int64_t i) const;

  CompressedMatrix w_;
  int64_t m_, blocks_;  // rows of x; scale blocks of a row
  const float* x_;
  float* y_;
  Scratch<int16_t> rounded_;       // for int8 weights: x / scale, (m, blocks * scale_block)
  Scratch<float> rounded_scales_;  // (m, blocks)
};

/// Converts n elements to bfloat16.
void compress_to_bfloat16(const float* x, int64_t n, uint16_t* to);
/// Converts a row of n finite elements to int8. A block's scale is its largest magnitude / 127,
/// rounded up, so that no value exceeds 127; below 2^-126 it is 0.
void compress_to_int8(const float* x, int64_t n, int8_t* values, uint16_t* scales);

}  // namespace gradus::kernel
