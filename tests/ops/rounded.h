#pragma once
// Rounds tensors like the operands of matrix products in bfloat16. Tests multiply the rounded
// values in float64 to get the expected results of such products.

#include "gradus/gradus.h"

namespace gradus::testing {

/// Returns x as float64, after rounding to float32 and, if has_bfloat16_products(), to bfloat16.
inline Tensor rounded(const Tensor& x) {
  const Tensor narrow = x.to(float32);
  return (has_bfloat16_products() ? narrow.to(bfloat16).to(float32) : narrow).to(float64);
}

}  // namespace gradus::testing
