#pragma once
// Weights in bfloat16 or int8: conversion from and to float32, and products of a few float32 rows
// with such weights (ProductKernel::compressed_dots).
//
// A bfloat16 is the upper half of a float32. An int8 row is divided into blocks of 32 values; its
// last block may be shorter. Each block has a bfloat16 scale, and an element equals its value times
// the scale of its block. An element thus takes 2 bytes in bfloat16 and 1.06 in int8.
//
// The composed form, written with basic ops, is matmul(x, weight.to(float32).mT()). A model that
// generates text reads each weight once per token, so reading the weights determines the time.

#include <bit>
#include <cmath>
#include <cstdint>

#include "gradus/core/runtime/allocator.h"
#include "gradus/core/tensor/dtype.h"

namespace gradus::kernel {

/// Number of int8 elements that share a scale.
inline constexpr int64_t scale_block = 32;

/// Returns the nearest bfloat16, ties to even. NaN stays NaN. Values that exceed the largest
/// bfloat16 in magnitude by half a step or more become infinite.
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

/// Computes y = x w^T for a few rows of x: x (m, w.cols), y (m, w.rows), both float32. The object
/// keeps pointers to the data of w, x and y, which must outlive it. If w is int8, the constructor
/// rounds x to 16-bit integers with one scale per scale_block elements, because integer products
/// are faster than converting each weight to float32. A NaN or infinity in a row of x then makes
/// the whole row of y NaN.
class CompressedProduct {
 public:
  CompressedProduct(const CompressedMatrix& w, int64_t m, const float* x, float* y);
  /// Returns the number of columns of y that one thread computes at a time.
  int64_t grain() const;
  /// Computes columns [begin, end) of y.
  void run(int64_t begin, int64_t end) const;

 private:
  template <int64_t M, int64_t R>
  void int8_dots(int64_t row, int64_t i) const;
  template <int64_t M>
  void bfloat16_dots(int64_t row, int64_t i) const;

  CompressedMatrix w_;
  int64_t m_, blocks_;  // rows of x; scale blocks per row
  const float* x_;
  float* y_;
  Scratch<int16_t> rounded_;       // for int8 weights: x divided by its scales, (m, blocks *
                                   // scale_block)
  Scratch<float> rounded_scales_;  // one scale per block of x: (m, blocks)
};

/// Converts n elements to bfloat16.
void compress_to_bfloat16(const float* x, int64_t n, uint16_t* to);
/// Converts a row of n finite elements to int8, with ceil(n / scale_block) scales. The scale of a
/// block is its largest magnitude / 127, rounded up to a bfloat16 so that no value exceeds 127. A
/// block whose scale would be below 2^-126 becomes 0.
void compress_to_int8(const float* x, int64_t n, int8_t* values, uint16_t* scales);

}  // namespace gradus::kernel
