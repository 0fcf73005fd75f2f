#pragma once
// The operands that products in bfloat16 read, for comparisons in float64.

#include "gradus/gradus.h"

namespace gradus::testing {

/// Rounds float64 numbers to float32 and on to bfloat16, if this build has such products. Returns
/// float64.
inline Tensor rounded(const Tensor& x) {
  const Tensor narrow = x.to(float32);
  return (has_bfloat16_products() ? narrow.to(bfloat16).to(float32) : narrow).to(float64);
}

}  // namespace gradus::testing
